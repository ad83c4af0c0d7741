// The encoder-decoder as a whole: nmt_cli/model/seq2seq.py and lexical.py, for one sentence at a time.

import { Embedding, Product } from "./cells.mjs";
import { Decoder } from "./decoder.mjs";
import { Encoder } from "./encoder.mjs";
import { Room } from "./memory.mjs";

export class Model {
  /** Takes the description's model; its numbers lie in `memory` from `base` on. */
  constructor(memory, record, base) {
    this.memory = memory;
    this.sourceEmbedding = new Embedding(memory, record.source_embedding, base);
    this.targetEmbedding = new Embedding(memory, record.target_embedding, base);
    this.output = new Product(memory, { ...record.output_weight, bias: record.output_bias }, base);
    this.encoder = new Encoder(memory, record.encoder, base);
    this.decoder = new Decoder(memory, record.decoder, base);
    this.lexical = record.lexical && new Product(memory, record.lexical.hidden, base);
    this.hasAttention = record.decoder.recurrence.attention.class !== "NoAttention";
    this.mean = memory.numbers(this.encoder.size);
    this.looked = memory.numbers(this.sourceEmbedding.size);
    this.rooms = { embedded: new Room(memory), weights: new Room(memory), states: new Room(memory) };
  }

  /** Reads a sentence, whose pieces end with </s>. */
  encode(pieces) {
    const { memory, rooms, encoder } = this, { size } = this.sourceEmbedding, { length } = pieces;
    const embedded = rooms.embedded.of(length * size), weights = rooms.weights.of(length);
    pieces.forEach((piece, place) => this.sourceEmbedding.of(piece, embedded + 4 * place * size));
    const states = encoder.read(embedded, length, size);
    this.source = { length, embedded, weights, states, final: encoder.final, mean: this.mean };
    this.decoder.attention.prepare(this.source);
    this.stateSize = this.decoder.stateSize(length);
    memory.fill(weights, length);
  }

  /** Returns the addresses of places for so many states; the first holds the state before the first piece. */
  begin(count) {
    const first = this.rooms.states.of(count * this.stateSize);
    const states = Array.from({ length: count }, (_, number) => first + 4 * number * this.stateSize);
    this.decoder.start(this.source, states[0]);
    return states;
  }

  /** Writes the state after a piece, and returns the address of the scores of all pieces (logits). */
  step(piece, state, next) {
    const readout = this.decoder.step(this.targetEmbedding.of(piece), this.source, state, next);
    if (this.lexical) this.#addLexical(readout);
    return this.output.of(readout);
  }

  /** Returns a copy of the attention weights of the last step. */
  weights() {
    return this.memory.copy(this.decoder.attention.weights, this.source.length);
  }

  /** f = tanh(sum_s a_s e_s);  h = tanh(W f) + f (Nguyen & Chiang, 2018) */
  #addLexical(readout) {
    const { looked, source } = this, { kernels } = this.memory, { size } = this.sourceEmbedding;
    kernels.weighted_sum(this.decoder.attention.weights, source.embedded, source.length, size, looked);
    kernels.tanh_in_place(looked, size);
    const hidden = this.lexical.of(looked);
    kernels.tanh_in_place(hidden, size);
    kernels.add(hidden, size, readout);
    kernels.add(looked, size, readout);
  }
}
