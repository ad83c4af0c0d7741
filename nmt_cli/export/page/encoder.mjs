// The recurrent encoder of nmt_cli/model/encoder.py: annotations h_j that join a forward and a backward reading.

import { Cell, Gates } from "./cells.mjs";
import { Room } from "./memory.mjs";

/** A stack of layers, residual from the second on. */
export class Encoder {
  constructor(memory, record, base) {
    Object.assign(this, { memory, reverse: record.reverse_source, size: record.annotation_size });
    this.layers = record.layers.map((directions) => directions.map(({ cell, projection }) => {
      const own = new Cell(memory, cell, base);
      const states = [memory.numbers(own.stateSize), memory.numbers(own.stateSize)]; // before and after a step
      return { cell: own, input: new Gates(memory, projection, base), states };
    }));
    this.final = memory.numbers(this.size); // the last state of each direction
    this.rooms = this.layers.map(() => new Room(memory));
  }

  /** Returns the annotations of so many embedded pieces: `length` rows of `size` numbers. */
  read(embedded, length, embeddingSize) {
    let inputs = embedded, inputSize = embeddingSize;
    this.layers.forEach((directions, number) => {
      const states = this.rooms[number].of(length * this.size);
      let first = 0;
      directions.forEach((direction, place) => {
        // The first direction begins where the source does, unless the source is read from its end.
        this.#unroll(direction, inputs, inputSize, states + 4 * first, length, (place === 0) === this.reverse);
        this.memory.move(direction.states[0], direction.cell.size, this.final + 4 * first);
        first += direction.cell.size;
      });
      if (number > 0) this.memory.kernels.add(inputs, length * this.size, states);
      inputs = states;
      inputSize = this.size;
    });
    return inputs;
  }

  #unroll({ cell, input, states }, inputs, inputSize, out, length, fromEnd) {
    const { memory } = this;
    let [state, next] = states;
    memory.fill(state, cell.stateSize);
    for (let step = 0; step < length; step++) {
      const place = fromEnd ? length - 1 - step : step;
      cell.step([[input, inputs + 4 * place * inputSize]], state, next);
      memory.move(next, cell.size, out + 4 * place * this.size);
      [state, next] = [next, state];
    }
    if (state !== states[0]) memory.move(state, cell.stateSize, states[0]);
  }
}
