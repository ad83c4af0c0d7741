// Products with matrices, and recurrent cells: the equations of nmt_cli/model/cells.py, one row at a time.
//
// A row is an address of numbers in float32. `of` writes its result to a place of its own, which the next call with the
// same object overwrites. A record is what description.py says about a module; its addresses count from `base`.

/** Returns the address of stored numbers, or 0 for those that a record lacks. */
const placeOf = (address, base) => (address === undefined ? 0 : base + address);

/** x W (+ b): inputs rounded to int8 with a scale for each row, or all in float32 where there are no scales. */
export class Product {
  constructor(memory, record, base) {
    Object.assign(this, { memory, inputs: record.inputs, outputs: record.outputs, padded: record.padded });
    this.weights = base + record.weights;
    this.bias = placeOf(record.bias, base);
    this.scales = placeOf(record.scales, base);
    this.out = memory.numbers(this.outputs);
    this.row = this.scales ? memory.reserve(2 * this.padded) : 0;
  }

  of(x, out = this.out) {
    const { kernels } = this.memory;
    if (this.scales) {
      kernels.product_int8(
        x, this.inputs, this.padded, this.row, this.weights, this.scales, this.bias, out, this.outputs,
      );
    } else kernels.product_float(x, this.inputs, this.weights, this.bias, out, this.outputs);
    return out;
  }
}

/** A row for each piece, as the matrix of a product has one for each output. */
export class Embedding {
  constructor(memory, record, base) {
    Object.assign(this, { memory, size: record.inputs, padded: record.padded });
    this.weights = base + record.weights;
    this.scales = placeOf(record.scales, base);
    this.out = memory.numbers(this.size);
  }

  of(piece, out = this.out) {
    const { memory, size } = this, from = this.weights + piece * this.padded * (this.scales ? 1 : 4);
    if (!this.scales) memory.move(from, size, out);
    else {
      const scale = memory.floats[(this.scales >> 2) + piece], to = out >> 2;
      for (let i = 0; i < size; i++) memory.floats[to + i] = memory.signed[from + i] * scale;
    }
    return out;
  }
}

/** One summand of the gates, of a cell or of a projection of its inputs: a product and a layer normalisation or bias. */
export class Gates {
  constructor(memory, record, base) {
    const { gain, bias } = record.norm ?? record;
    this.product = new Product(memory, record.weight, base);
    Object.assign(this, { memory, numGates: record.num_gates, size: this.product.outputs / record.num_gates });
    this.gain = placeOf(gain, base);
    this.bias = base + bias;
  }

  addTo(total, x) {
    const { numGates, size } = this;
    this.memory.kernels.add_gates(this.product.of(x), this.gain, this.bias, numGates, size, total);
  }
}

/**
 * One step of a recurrence. The state of a GRU is its hidden units. The state of an LSTM is its hidden units and its
 * cell, side by side. So the address of a state is that of its hidden units.
 *
 * gru: r, z = sigmoid(W x + U h);  n = tanh(W x + r * U h);  h' = (1 - z) * n + z * h
 * lstm: i, f, o = sigmoid(W x + U h);  n = tanh(W x + U h);  c' = f * c + i * n;  h' = o * tanh(c')
 */
export class Cell {
  constructor(memory, record, base) {
    const { rnn_type: type, hidden_size: size, gates_size: numbers, state_size: stateSize, cell_norm: norm } = record;
    Object.assign(this, { memory, isGru: type === "gru", size, numbers, stateSize });
    this.recurrent = new Gates(memory, record, base);
    this.norm = norm && { gain: base + norm.gain, bias: base + norm.bias };
    this.above = memory.numbers(numbers);
    this.below = memory.numbers(numbers);
    this.shown = memory.numbers(size);
  }

  /** Writes the state after `state` to `next`; `inputs` are pairs of `Gates` and what enters them. */
  step(inputs, state, next) {
    const { memory, size, above } = this, { kernels } = memory;
    memory.fill(above, this.numbers);
    for (const [gates, x] of inputs) gates.addTo(above, x);
    if (this.isGru) {
      memory.fill(this.below, this.numbers);
      this.recurrent.addTo(this.below, state);
      kernels.gru(above, this.below, state, size, next);
      return;
    }
    this.recurrent.addTo(above, state);
    const cell = next + 4 * size;
    kernels.lstm(above, state + 4 * size, size, cell);
    let shown = cell;
    if (this.norm) {
      shown = this.shown;
      memory.fill(shown, size);
      kernels.add_gates(cell, this.norm.gain, this.norm.bias, 1, size, shown);
    }
    kernels.lstm_out(above, shown, size, next);
  }
}
