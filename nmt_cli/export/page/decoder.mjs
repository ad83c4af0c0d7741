// The recurrent decoder of nmt_cli/model/decoder.py: one step of a search at a time.
//
// A state is one block of numbers: the states of the layers, Luong's attentional vector where it is fed to the next
// step, and what the attention remembers. So a beam copies it in one piece.

import { attentionOf } from "./attention.mjs";
import { Cell, Gates, Product } from "./cells.mjs";

export class Decoder {
  constructor(memory, record, base) {
    const { recurrence } = record, { cells, projections } = recurrence.upper;
    const made = (Part, one) => one && new Part(memory, one, base);
    Object.assign(this, { memory, recurrence: recurrence.class });
    this.attention = attentionOf(memory, recurrence.attention, base);
    this.cell = made(Cell, recurrence.cell);
    this.input = made(Gates, recurrence.input);
    this.context = made(Gates, recurrence.context);
    this.feed = made(Gates, recurrence.feed);
    this.contextCell = made(Cell, recurrence.context_cell);
    this.attentional = made(Product, recurrence.attentional);
    this.upper = cells.map((cell, at) => ({ cell: made(Cell, cell), input: made(Gates, projections[at]) }));
    this.readout = made(Readout, record.readout);
    this.initial = record.initial;
    this.initialProjection = made(Product, record.initial.projection);
    this.between = memory.numbers(this.cell.stateSize);
    this.hidden = memory.numbers(this.cell.size);
    this.joined = this.attentional && memory.numbers(this.attentional.inputs);
    this.layersSize = this.cell.stateSize * (1 + this.upper.length);
    this.feedSize = this.feed ? this.attentional.outputs : 0;
  }

  stateSize(length) {
    return this.layersSize + this.feedSize + this.attention.stateSize(length);
  }

  /** Writes the state before the first piece; the attention has been prepared for the source. */
  start(source, state) {
    const { memory, initial, initialProjection: projection } = this;
    memory.fill(state, this.stateSize(source.length));
    if (!projection) return;
    let summary = source.final;
    if (initial.kind === "mean") {
      summary = source.mean;
      memory.fill(source.weights, source.length, 1 / source.length);
      memory.kernels.weighted_sum(source.weights, source.states, source.length, projection.inputs, summary);
    } else if (initial.kind === "backward") summary += 4 * projection.inputs; // the second half
    projection.of(summary, state);
    memory.kernels.tanh_in_place(state, projection.outputs);
  }

  /** Writes the state after `embedded`, and returns the address of the readout. */
  step(embedded, source, state, next) {
    const { memory, attention } = this, { kernels } = memory;
    const remembered = 4 * (this.layersSize + this.feedSize);
    const look = (query) => attention.look(query, state + remembered, next + remembered);
    const last = 4 * this.cell.stateSize * this.upper.length;
    if (this.recurrence === "BahdanauRecurrence") {
      look(state + last); // with s_{i-1}
      this.cell.step([[this.input, embedded], [this.context, attention.context]], state, next);
    } else if (this.recurrence === "ConditionalRecurrence") {
      this.cell.step([[this.input, embedded]], state, this.between);
      look(this.between); // with s'_i
      this.contextCell.step([[this.context, attention.context]], this.between, next);
    } else {
      const fed = this.feed ? [[this.feed, state + 4 * this.layersSize]] : [];
      this.cell.step([[this.input, embedded], ...fed], state, next);
    }
    const hidden = this.#above(state, next);
    if (this.readout) return this.readout.of(hidden, embedded, attention);
    look(hidden); // with s_i
    memory.move(attention.context, attention.contextSize, this.joined);
    memory.move(hidden, this.cell.size, this.joined + 4 * attention.contextSize);
    const attentional = this.attentional.of(this.joined); // h~ = tanh(W [c; s])
    kernels.tanh_in_place(attentional, this.attentional.outputs);
    if (this.feed) memory.move(attentional, this.feedSize, next + 4 * this.layersSize);
    return attentional;
  }

  /** Goes through the layers above the first, each with what goes around it; returns the address of the hidden units. */
  #above(state, next) {
    const { memory, hidden } = this;
    if (!this.upper.length) return next;
    memory.move(next, this.cell.size, hidden);
    this.upper.forEach(({ cell, input }, number) => {
      const at = 4 * cell.stateSize * (1 + number);
      cell.step([[input, hidden]], state + at, next + at);
      memory.kernels.add(next + at, cell.size, hidden);
    });
    return hidden;
  }
}

/** Deep output: s_i, y_{i-1} and c_i joined before the softmax. */
class Readout {
  constructor(memory, record, base) {
    Object.assign(this, { memory, maxout: record.maxout });
    for (const name of ["hidden", "input", "context"]) {
      this[name] = record[name] && new Product(memory, record[name], base);
    }
  }

  of(hidden, embedded, attention) {
    const { kernels, floats } = this.memory, size = this.hidden.outputs;
    const summed = this.hidden.of(hidden);
    kernels.add(this.input.of(embedded), size, summed);
    if (this.context) kernels.add(this.context.of(attention.context), size, summed);
    if (!this.maxout) kernels.tanh_in_place(summed, size);
    else { // pairs compete
      const at = summed >> 2;
      for (let i = 0; i < size / 2; i++) floats[at + i] = Math.max(floats[at + 2 * i], floats[at + 2 * i + 1]);
    }
    return summed;
  }
}
