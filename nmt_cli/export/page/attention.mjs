// The attentions of nmt_cli/model/attention.py, one row at a time.
//
// `source` is what the encoder has left: `length` rows of annotations at `states`, and `final`. An attention prepares
// its keys once for each sentence. `look` reads a query and the state of the step before, and writes the next state, the
// weights and the context. A state is a block of `stateSize(length)` numbers.

import { Product } from "./cells.mjs";
import { Room } from "./memory.mjs";

const layerOf = (memory, record, base) => record && new Product(memory, record, base);

/** e_j = v . tanh(W s + U h_j) (additive), s . h_j (dot), or s . W h_j (general). */
class Score {
  constructor(memory, record, base) {
    Object.assign(this, { memory, isAdditive: record.class === "AdditiveScore", room: new Room(memory) });
    this.key = layerOf(memory, record.key, base);
    this.query = layerOf(memory, record.query, base);
    this.v = this.isAdditive ? base + record.v : 0;
  }

  prepare({ states, length }, stateSize) {
    this.size = this.key ? this.key.outputs : stateSize;
    this.keys = this.key ? this.room.of(length * this.size) : states;
    if (!this.key) return;
    for (let s = 0; s < length; s++) this.key.of(states + 4 * s * stateSize, this.keys + 4 * s * this.size);
  }

  /** Writes the energies; `extra` (length, size) enters beside query and keys. */
  energies(query, length, out, extra = 0) {
    const { kernels } = this.memory;
    if (this.isAdditive) kernels.additive(this.query.of(query), this.keys, extra, this.v, length, this.size, out);
    else kernels.product_float(query, this.size, this.keys, 0, out, length);
  }
}

/** A softmax over the whole source, with any score. */
class GlobalAttention {
  constructor(memory, record, base) {
    Object.assign(this, { memory, contextSize: record.context_size, weightsRoom: new Room(memory) });
    this.score = record.score && new Score(memory, record.score, base);
    this.context = memory.numbers(this.contextSize);
  }

  prepare(source) {
    this.source = source;
    this.weights = this.weightsRoom.of(source.length);
    if (this.score) this.score.prepare(source, this.contextSize);
  }

  stateSize() {
    return 0;
  }

  look(query) {
    this.score.energies(query, this.source.length, this.weights);
    this.memory.kernels.softmax(this.weights, this.source.length);
    this.sum();
  }

  /** c = sum_j alpha_j h_j */
  sum() {
    const { states, length } = this.source;
    this.memory.kernels.weighted_sum(this.weights, states, length, this.contextSize, this.context);
  }
}

/** Luong's local attention: a softmax over the window around a centre, which goes on step by step or is predicted. */
class LocalAttention extends GlobalAttention {
  constructor(memory, record, base) {
    super(memory, record, base);
    this.window = record.window;
    this.position = layerOf(memory, record.position, base);
    this.positionV = layerOf(memory, record.position_v, base);
  }

  stateSize() {
    return 1; // the number of the step
  }

  look(query, state, next) {
    const { memory, window, weights } = this, { length } = this.source, { kernels } = memory;
    const step = memory.floats[state >> 2], last = length - 1;
    memory.floats[next >> 2] = step + 1;
    const centre = this.position ? this.#predicted(query, last) : Math.min(step, last);
    const from = Math.max(0, Math.ceil(centre - window)), to = Math.min(last, Math.floor(centre + window));
    this.score.energies(query, length, weights);
    kernels.softmax(weights + 4 * from, to + 1 - from);
    for (let s = 0; s < length; s++) {
      if (s < from || s > to) memory.floats[(weights >> 2) + s] = 0;
      else if (this.position) {
        memory.floats[(weights >> 2) + s] *= Math.exp(-((s - centre) ** 2) / (2 * (window / 2) ** 2));
      }
    }
    this.sum();
  }

  #predicted(query, last) {
    const hidden = this.position.of(query);
    this.memory.kernels.tanh_in_place(hidden, this.position.outputs);
    const predicted = this.memory.floats[this.positionV.of(hidden) >> 2];
    return last * Math.fround(1 / (1 + Math.exp(-predicted)));
  }
}

/** Chorowski's: features of the weights of the step before, which a convolution makes, enter the score. */
class LocationAttention extends GlobalAttention {
  constructor(memory, record, base) {
    super(memory, record, base);
    Object.assign(this, { width: record.convolution.width, sharpening: record.sharpening, smoothing: record.smoothing });
    this.filters = base + record.convolution.filters;
    this.location = layerOf(memory, record.location, base);
    this.features = memory.numbers(this.location.inputs);
    this.extra = new Room(memory);
  }

  stateSize(length) {
    return length; // the weights
  }

  look(query, state, next) {
    const { memory, weights } = this, { length } = this.source;
    const extra = this.extra.of(length * this.score.size);
    for (let s = 0; s < length; s++) {
      this.#convolve(state, s, length);
      this.location.of(this.features, extra + 4 * s * this.score.size);
    }
    this.score.energies(query, length, weights, extra);
    for (let at = weights >> 2; at < (weights >> 2) + length; at++) {
      const energy = memory.floats[at] * this.sharpening;
      // Sigmoids over their sum are the softmax of their logarithms.
      memory.floats[at] = this.smoothing ? Math.min(0, energy) - Math.log1p(Math.exp(-Math.abs(energy))) : energy;
    }
    memory.kernels.softmax(weights, length);
    memory.move(weights, length, next);
    this.sum();
  }

  #convolve(state, place, length) {
    const { floats } = this.memory, half = this.width >> 1;
    for (let filter = 0; filter < this.location.inputs; filter++) {
      let sum = 0;
      for (let tap = 0; tap < this.width; tap++) {
        const s = place + tap - half;
        if (s < 0 || s >= length) continue;
        sum += floats[(this.filters >> 2) + filter * this.width + tap] * floats[(state >> 2) + s];
      }
      floats[(this.features >> 2) + filter] = sum;
    }
  }
}

/** Additive attention that knows where it has looked: by the sum of its weights, or by a vector at each position. */
class CoverageAttention extends GlobalAttention {
  constructor(memory, record, base) {
    super(memory, record, base);
    this.coverage = layerOf(memory, record.coverage, base);
    this.update = layerOf(memory, record.update, base);
    this.updateKey = layerOf(memory, record.update_key, base);
    this.updateQuery = layerOf(memory, record.update_query, base);
    this.units = this.coverage.inputs;
    this.seen = memory.numbers(this.units + 1);
    this.extra = new Room(memory);
    this.updateKeys = new Room(memory);
  }

  prepare(source) {
    super.prepare(source);
    if (!this.updateKey) return;
    const keys = this.updateKeys.of(source.length * this.units);
    for (let s = 0; s < source.length; s++) {
      this.updateKey.of(source.states + 4 * s * this.contextSize, keys + 4 * s * this.units);
    }
  }

  stateSize(length) {
    return length * this.units;
  }

  look(query, state, next) {
    const { memory, units, weights } = this, { length } = this.source, { size } = this.score;
    const extra = this.extra.of(length * size);
    for (let s = 0; s < length; s++) this.coverage.of(state + 4 * s * units, extra + 4 * s * size);
    this.score.energies(query, length, weights, extra);
    memory.kernels.softmax(weights, length);
    this.sum();
    const fromQuery = this.updateQuery && this.updateQuery.of(query);
    for (let s = 0; s < length; s++) {
      const at = 4 * s * units, weight = memory.floats[(weights >> 2) + s];
      if (!this.update) memory.floats[(next + at) >> 2] = memory.floats[(state + at) >> 2] + weight;
      else {
        // C_j = tanh(C_j V + alpha_j v + h_j U + s W)
        memory.move(state + at, units, this.seen);
        memory.floats[(this.seen >> 2) + units] = weight;
        this.update.of(this.seen, next + at);
        memory.kernels.add(this.updateKeys.address + at, units, next + at);
        memory.kernels.add(fromQuery, units, next + at);
        memory.kernels.tanh_in_place(next + at, units);
      }
    }
  }
}

/** Several additive heads; the weights shown are their mean. */
class MultiheadAttention extends GlobalAttention {
  constructor(memory, record, base) {
    super(memory, record, base);
    for (const name of ["query", "key", "mix"]) this[name] = layerOf(memory, record[name], base);
    this.size = this.key.outputs;
    this.heads = this.mix.inputs / this.contextSize;
    this.v = base + record.v;
    this.keys = new Room(memory);
    this.ofHead = new Room(memory);
    this.contexts = memory.numbers(this.heads * this.contextSize);
  }

  prepare(source) {
    super.prepare(source);
    const keys = this.keys.of(source.length * this.size);
    for (let s = 0; s < source.length; s++) {
      this.key.of(source.states + 4 * s * this.contextSize, keys + 4 * s * this.size);
    }
  }

  look(query) {
    const { memory, heads, contextSize } = this, { states, length } = this.source, { kernels } = memory;
    const projected = this.query.of(query), weights = this.ofHead.of(length), { floats } = memory;
    memory.fill(this.weights, length);
    for (let head = 0; head < heads; head++) {
      this.#energies(projected, head, weights);
      kernels.softmax(weights, length);
      kernels.weighted_sum(weights, states, length, contextSize, this.contexts + 4 * head * contextSize);
      for (let s = 0; s < length; s++) floats[(this.weights >> 2) + s] += floats[(weights >> 2) + s] / heads;
    }
    this.mix.of(this.contexts, this.context);
  }

  #energies(query, head, out) {
    const { memory, size } = this, { floats } = memory, own = size / this.heads, first = head * own;
    for (let s = 0; s < this.source.length; s++) {
      let energy = 0;
      for (let a = first; a < first + own; a++) {
        const x = floats[(query >> 2) + a] + floats[(this.keys.address >> 2) + s * size + a];
        energy += floats[(this.v >> 2) + a] * Math.tanh(x);
      }
      floats[(out >> 2) + s] = energy;
    }
  }
}

/** The fixed source vector at every step, or no context at all. */
class NoAttention {
  constructor(memory, record) {
    Object.assign(this, { memory, contextSize: record.context_size, weightsRoom: new Room(memory) });
  }

  prepare(source) {
    this.context = source.final;
    this.weights = this.weightsRoom.of(source.length);
    this.memory.fill(this.weights, source.length);
  }

  stateSize() {
    return 0;
  }

  look() {}
}

const ATTENTIONS = {
  GlobalAttention, LocalAttention, LocationAttention, CoverageAttention, MultiheadAttention, NoAttention,
};

/** Returns the attention of a record. */
export const attentionOf = (memory, record, base) => new ATTENTIONS[record.class](memory, record, base);
