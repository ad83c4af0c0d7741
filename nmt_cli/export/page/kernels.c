// The inner loops of the page's engine, compiled to WebAssembly (`make wasm`). What they compute is written once more in
// plain.mjs, for browsers without WebAssembly and for the tests that compare the two.
//
// Only addresses and sizes come in. Nothing is allocated, and nothing of a C library is needed.

#include <stdint.h>
#include <wasm_simd128.h>

#define EXPORT(name) __attribute__((export_name(#name)))
#define MIN_SCALE 1e-12f
#define EPSILON 1e-5f // of a layer normalisation

// Cephes' expf: 2^n e^r with |r| <= ln 2 / 2; beyond +-87 it stands still. The same as in nmt_cli/ops/kernels.cpp.
static inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const float shifted = x * 1.44269504088896341f + 12582912.0f; // 1.5 x 2^23: the sum is rounded to an integer
    const float n = shifted - 12582912.0f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    union { float number; uint32_t bits; } power = {.number = shifted};
    power.bits = (power.bits + 127u) << 23;
    return y * power.number;
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }
static inline float tanh_of(float x) { return 2.0f * sigmoid(2.0f * x) - 1.0f; }

// A row in int8 with one scale, as translation/precision.py makes it; kept in 16 bits, which the product multiplies.
// `padded` is a multiple of 8.
static float quantise(const float *x, int inputs, int padded, int16_t *row) {
    float largest = 0;
    for (int i = 0; i < inputs; i++) {
        const float size = x[i] < 0 ? -x[i] : x[i];
        largest = size > largest ? size : largest;
    }
    const float scale = (largest > MIN_SCALE ? largest : MIN_SCALE) / 127.0f;
    for (int i = 0; i < inputs; i++) row[i] = (int16_t)__builtin_rintf(x[i] / scale);
    for (int i = inputs; i < padded; i++) row[i] = 0;
    return scale;
}

static inline v128_t madd(v128_t sum, v128_t row, const int8_t *weights) {
    return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(row, wasm_i16x8_load8x8(weights)));
}

static inline int32_t across(v128_t sums) {
    return wasm_i32x4_extract_lane(sums, 0) + wasm_i32x4_extract_lane(sums, 1) + wasm_i32x4_extract_lane(sums, 2) +
           wasm_i32x4_extract_lane(sums, 3);
}

static inline float scaled(int32_t sum, float row_scale, const float *scales, const float *biases, int o) {
    const float product = (float)sum * row_scale;
    return biases ? biases[o] + product * scales[o] : product * scales[o];
}

// x W (+ b) in int8, summed in int32: `weights` is (outputs, padded) with a scale for each output.
EXPORT(product_int8)
void product_int8(const float *x, int inputs, int padded, int16_t *row, const int8_t *weights, const float *scales,
                  const float *biases, float *restrict out, int outputs) {
    const float row_scale = quantise(x, inputs, padded, row);
    int o = 0;
    for (; o + 4 <= outputs; o += 4) { // four outputs share each load of the row
        const int8_t *w = weights + (intptr_t)o * padded;
        v128_t a = wasm_i32x4_splat(0), b = a, c = a, d = a;
        for (int i = 0; i < padded; i += 8) {
            const v128_t x8 = wasm_v128_load(row + i);
            a = madd(a, x8, w + i);
            b = madd(b, x8, w + i + padded);
            c = madd(c, x8, w + i + 2 * padded);
            d = madd(d, x8, w + i + 3 * padded);
        }
        out[o] = scaled(across(a), row_scale, scales, biases, o);
        out[o + 1] = scaled(across(b), row_scale, scales, biases, o + 1);
        out[o + 2] = scaled(across(c), row_scale, scales, biases, o + 2);
        out[o + 3] = scaled(across(d), row_scale, scales, biases, o + 3);
    }
    for (; o < outputs; o++) {
        v128_t sum = wasm_i32x4_splat(0);
        for (int i = 0; i < padded; i += 8)
            sum = madd(sum, wasm_v128_load(row + i), weights + (intptr_t)o * padded + i);
        out[o] = scaled(across(sum), row_scale, scales, biases, o);
    }
}

// x W (+ b) in float32: `weights` is (outputs, inputs). Also the inner products of a query with all keys.
EXPORT(product_float)
void product_float(const float *x, int inputs, const float *weights, const float *biases, float *restrict out, int outputs) {
    for (int o = 0; o < outputs; o++) {
#pragma clang fp reassociate(on)
        float sum = 0;
        for (int i = 0; i < inputs; i++) sum += x[i] * weights[o * inputs + i];
        out[o] = biases ? sum + biases[o] : sum;
    }
}

// A term of a cell's gates: normalised gate by gate (`gain` is not 0) or not, with its bias; added to `total`.
EXPORT(add_gates)
void add_gates(const float *product, const float *gain, const float *bias, int gates, int size, float *restrict total) {
#pragma clang fp reassociate(on)
    for (int gate = 0; gate < gates; gate++, product += size, bias += size, total += size) {
        if (!gain) {
            for (int i = 0; i < size; i++) total[i] += product[i] + bias[i];
            continue;
        }
        float sum = 0, squares = 0;
        for (int i = 0; i < size; i++) sum += product[i];
        const float mean = sum / size;
        for (int i = 0; i < size; i++) squares += (product[i] - mean) * (product[i] - mean);
        const float scale = 1.0f / __builtin_sqrtf(squares / size + EPSILON);
        for (int i = 0; i < size; i++) total[i] += (product[i] - mean) * scale * gain[i] + bias[i];
        gain += size;
    }
}

// r, z = sigmoid(W x + U h);  n = tanh(W x + r * U h);  h' = (1 - z) * n + z * h
EXPORT(gru)
void gru(const float *above, const float *recurrent, const float *hidden, int size, float *restrict out) {
    for (int i = 0; i < size; i++) {
        const float reset = sigmoid(above[i] + recurrent[i]);
        const float update = sigmoid(above[size + i] + recurrent[size + i]);
        const float proposal = tanh_of(above[2 * size + i] + reset * recurrent[2 * size + i]);
        out[i] = proposal + update * (hidden[i] - proposal);
    }
}

// i, f, o = sigmoid(gates);  n = tanh(gates);  c' = f * c + i * n. The hidden units o * tanh(c') are left to `lstm_out`,
// because c' may be normalised before.
EXPORT(lstm)
void lstm(const float *gates, const float *cell, int size, float *restrict out) {
    for (int i = 0; i < size; i++)
        out[i] = sigmoid(gates[size + i] + 1.0f) * cell[i] + sigmoid(gates[i]) * tanh_of(gates[3 * size + i]);
}

EXPORT(lstm_out)
void lstm_out(const float *gates, const float *cell, int size, float *restrict hidden) {
    for (int i = 0; i < size; i++) hidden[i] = sigmoid(gates[2 * size + i]) * tanh_of(cell[i]);
}

// e_j = v . tanh(q + k_j (+ extra_j))
EXPORT(additive)
void additive(const float *query, const float *keys, const float *extra, const float *v, int length, int size,
              float *restrict energies) {
#pragma clang fp reassociate(on)
    for (int s = 0; s < length; s++, keys += size) {
        float energy = 0;
        if (extra) {
            for (int a = 0; a < size; a++) energy += v[a] * tanh_of(query[a] + keys[a] + extra[a]);
            extra += size;
        } else {
            for (int a = 0; a < size; a++) energy += v[a] * tanh_of(query[a] + keys[a]);
        }
        energies[s] = energy;
    }
}

// sum_j alpha_j h_j
EXPORT(weighted_sum)
void weighted_sum(const float *weights, const float *values, int length, int size, float *restrict out) {
    for (int c = 0; c < size; c++) out[c] = 0;
    for (int s = 0; s < length; s++, values += size)
        for (int c = 0; c < size; c++) out[c] += weights[s] * values[c];
}

// Softmax in place.
EXPORT(softmax)
void softmax(float *x, int size) {
#pragma clang fp reassociate(on)
    float largest = x[0], sum = 0;
    for (int i = 1; i < size; i++) largest = x[i] > largest ? x[i] : largest;
    for (int i = 0; i < size; i++) {
        x[i] = exponential(x[i] - largest);
        sum += x[i];
    }
    for (int i = 0; i < size; i++) x[i] /= sum;
}

// sum_i exp(x_i - shift), for log-probabilities.
EXPORT(sum_exp)
float sum_exp(const float *x, int size, float shift) {
#pragma clang fp reassociate(on)
    float sum = 0;
    for (int i = 0; i < size; i++) sum += exponential(x[i] - shift);
    return sum;
}

EXPORT(tanh_in_place)
void tanh_in_place(float *x, int size) {
    for (int i = 0; i < size; i++) x[i] = tanh_of(x[i]);
}

EXPORT(add)
void add(const float *x, int size, float *restrict out) {
    for (int i = 0; i < size; i++) out[i] += x[i];
}

// The place of the largest number, of equal ones the first; -1 where one is no number.
EXPORT(largest)
int largest(const float *x, int size) {
    float most = -__builtin_inff();
    int wrong = 0;
    for (int i = 0; i < size; i++) {
        most = x[i] > most ? x[i] : most;
        wrong |= x[i] != x[i];
    }
    if (wrong) return -1;
    int place = 0;
    while (place < size - 1 && x[place] != most) place++;
    return place;
}
