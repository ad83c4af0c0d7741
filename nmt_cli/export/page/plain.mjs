// The kernels of kernels.c in plain JavaScript, for browsers without WebAssembly: the same names and arguments, some
// twenty times slower. Addresses count bytes; null is 0.

const MIN_SCALE = 1e-12;
const EPSILON = 1e-5; // of a layer normalisation

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const tanh = (x) => 2 * sigmoid(2 * x) - 1;

/** Rounds halves to the even number, as the other kernels do. */
function rounded(x) {
  const whole = Math.round(x);
  return whole - x === 0.5 && whole % 2 !== 0 ? whole - 1 : whole;
}

/** Returns the kernels over `memory`, whose `floats` and `bytes` are views of the same numbers. */
export function plainKernels(memory) {
  let row = new Int32Array(0);

  const kernels = {
    product_int8(x, inputs, padded, _, weights, scales, biases, out, outputs) {
      const { floats, signed } = memory, from = x >> 2;
      if (row.length < padded) row = new Int32Array(padded);
      let largest = 0;
      for (let i = 0; i < inputs; i++) largest = Math.max(largest, Math.abs(floats[from + i]));
      const scale = Math.fround(Math.max(largest, Math.fround(MIN_SCALE)) / 127);
      for (let i = 0; i < inputs; i++) row[i] = rounded(Math.fround(floats[from + i] / scale));
      for (let o = 0; o < outputs; o++) {
        const at = weights + o * padded;
        let sum = 0;
        for (let i = 0; i < inputs; i++) sum += row[i] * signed[at + i];
        const product = Math.fround(Math.fround(sum * scale) * floats[(scales >> 2) + o]);
        floats[(out >> 2) + o] = biases ? floats[(biases >> 2) + o] + product : product;
      }
    },

    product_float(x, inputs, weights, biases, out, outputs) {
      const { floats } = memory;
      for (let o = 0; o < outputs; o++) {
        let sum = biases ? floats[(biases >> 2) + o] : 0;
        for (let i = 0; i < inputs; i++) sum += floats[(x >> 2) + i] * floats[(weights >> 2) + o * inputs + i];
        floats[(out >> 2) + o] = sum;
      }
    },

    add_gates(product, gain, bias, gates, size, total) {
      const { floats } = memory;
      for (let gate = 0; gate < gates; gate++) {
        const at = gate * size, from = (product >> 2) + at;
        let mean = 0, squares = 0, scale = 1;
        if (gain) {
          for (let i = 0; i < size; i++) mean += floats[from + i] / size;
          for (let i = 0; i < size; i++) squares += (floats[from + i] - mean) ** 2;
          scale = 1 / Math.sqrt(squares / size + EPSILON);
        }
        for (let i = 0; i < size; i++) {
          const normal = (floats[from + i] - mean) * scale * (gain ? floats[(gain >> 2) + at + i] : 1);
          floats[(total >> 2) + at + i] += normal + floats[(bias >> 2) + at + i];
        }
      }
    },

    gru(above, recurrent, hidden, size, out) {
      const { floats } = memory, a = above >> 2, u = recurrent >> 2;
      for (let i = 0; i < size; i++) {
        const reset = sigmoid(floats[a + i] + floats[u + i]);
        const update = sigmoid(floats[a + size + i] + floats[u + size + i]);
        const proposal = tanh(floats[a + 2 * size + i] + reset * floats[u + 2 * size + i]);
        floats[(out >> 2) + i] = proposal + update * (floats[(hidden >> 2) + i] - proposal);
      }
    },

    lstm(gates, cell, size, out) {
      const { floats } = memory, g = gates >> 2;
      for (let i = 0; i < size; i++) {
        const kept = sigmoid(floats[g + size + i] + 1) * floats[(cell >> 2) + i];
        floats[(out >> 2) + i] = kept + sigmoid(floats[g + i]) * tanh(floats[g + 3 * size + i]);
      }
    },

    lstm_out(gates, cell, size, hidden) {
      const { floats } = memory;
      for (let i = 0; i < size; i++) {
        floats[(hidden >> 2) + i] = sigmoid(floats[(gates >> 2) + 2 * size + i]) * tanh(floats[(cell >> 2) + i]);
      }
    },

    additive(query, keys, extra, v, length, size, energies) {
      const { floats } = memory;
      for (let s = 0; s < length; s++) {
        let energy = 0;
        for (let a = 0; a < size; a++) {
          const beside = extra ? floats[(extra >> 2) + s * size + a] : 0;
          energy += floats[(v >> 2) + a] * tanh(floats[(query >> 2) + a] + floats[(keys >> 2) + s * size + a] + beside);
        }
        floats[(energies >> 2) + s] = energy;
      }
    },

    weighted_sum(weights, values, length, size, out) {
      const { floats } = memory;
      for (let c = 0; c < size; c++) {
        let sum = 0;
        for (let s = 0; s < length; s++) sum += floats[(weights >> 2) + s] * floats[(values >> 2) + s * size + c];
        floats[(out >> 2) + c] = sum;
      }
    },

    softmax(x, size) {
      const numbers = memory.floats.subarray(x >> 2, (x >> 2) + size);
      const shift = numbers.reduce((most, one) => Math.max(most, one), -Infinity);
      for (let i = 0; i < size; i++) numbers[i] = Math.exp(numbers[i] - shift);
      const sum = numbers.reduce((all, one) => all + one, 0);
      for (let i = 0; i < size; i++) numbers[i] /= sum;
    },

    sum_exp(x, size, shift) {
      const { floats } = memory;
      let sum = 0;
      for (let i = 0; i < size; i++) sum += Math.exp(floats[(x >> 2) + i] - shift);
      return sum;
    },

    tanh_in_place(x, size) {
      const { floats } = memory;
      for (let i = x >> 2; i < (x >> 2) + size; i++) floats[i] = tanh(floats[i]);
    },

    add(x, size, out) {
      const { floats } = memory;
      for (let i = 0; i < size; i++) floats[(out >> 2) + i] += floats[(x >> 2) + i];
    },

    largest(x, size) {
      const { floats } = memory, from = x >> 2;
      let best = 0;
      for (let i = 0; i < size; i++) {
        if (Number.isNaN(floats[from + i])) return -1;
        if (floats[from + i] > floats[from + best]) best = i;
      }
      return best;
    },
  };
  return kernels;
}
