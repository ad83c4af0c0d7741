// The inner loops of training and search on a CPU, each one pass over its data; what they compute is written plainly in
// gru.py, additive.py, cross_entropy.py and log_softmax.py beside this file. Only pointers and sizes come in: no header
// of Python or torch.
//
// T is float or double, the type of states, gradients and sums; a product (P) is in T or in bfloat16.
// Work is cut into `chunks` of rows whatever the number of threads that are really there, so that a sum over rows, of
// which every chunk has its own, is the same each time.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

// The loader takes the best that the processor has: what is built on one machine runs on another.
#if defined(__x86_64__) && defined(__linux__) && __has_attribute(target_clones)
#if __GNUC__ >= 12
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define FOR_EACH_PROCESSOR
#endif
#define INLINE __attribute__((always_inline)) inline

// Since glibc 2.29 exp and log have further versions, which differ from these in errno alone. With these the library runs
// wherever torch does, which asks for glibc 2.28.
#if defined(__x86_64__) && defined(__GLIBC__)
__asm__(".symver exp, exp@GLIBC_2.2.5");
__asm__(".symver log, log@GLIBC_2.2.5");
#endif

// Clang 19 forgets the members of std::vector that only clones in an unnamed namespace call.
#ifdef __clang__
inline namespace kernels {
#else
namespace {
#endif

struct bfloat16 {
    uint16_t bits;
};

INLINE void take(float from, float& to) { to = from; }
INLINE void take(double from, double& to) { to = from; }
INLINE void take(bfloat16 from, float& to) {
    to = __builtin_bit_cast(float, uint32_t(from.bits) << 16);
}
INLINE void put(float from, float& to) { to = from; }
INLINE void put(double from, double& to) { to = from; }
INLINE void put(float from, bfloat16& to) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, from);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;  // to nearest, ties to even
    to.bits = uint16_t(from == from ? rounded : 0x7fc0u);
}

INLINE double exponential(double x) { return std::exp(x); }
// Cephes' expf: 2^n e^r with |r| <= ln 2 / 2. Not a number stays so; beyond +-87 it stands still.
INLINE float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const float shifted = x * 1.44269504088896341f + 12582912.0f;  // 1.5 x 2^23: the sum is rounded to an integer
    const float n = shifted - 12582912.0f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    return y * __builtin_bit_cast(float, (__builtin_bit_cast(uint32_t, shifted) + 127u) << 23);
}

template <class T> INLINE T sigmoid(T x) { return T(1) / (T(1) + exponential(-x)); }
template <class T> INLINE T tanh_of(T x) { return T(2) * sigmoid(T(2) * x) - T(1); }

// One product among those whose sum are a cell's gates, with what finishes it: a layer normalisation of each gate
// (`gain` is there), a bias, or nothing. (D, B, 3H) in memory, `direction` elements from one direction to the next.
struct Term {
    const void* product;
    void* product_gradient;
    const void* gain;  // (D, 3H)
    const void* bias;
    void* gain_gradient;  // (chunks, D, 3H), added to
    void* bias_gradient;
    int64_t direction, gradient_direction;
};

constexpr double EPSILON = 1e-5;  // of a layer normalisation

// A row's gates of one term, finished (`finished`) and before gain and bias (`plain`, may be the same memory).
template <class T, class P>
INLINE void finish(
    const Term& term, int64_t direction, int64_t row, int64_t size, T* __restrict plain, T* __restrict finished,
    T* deviations) {
    const P* product = static_cast<const P*>(term.product) + direction * term.direction + row * 3 * size;
    const T* gain = static_cast<const T*>(term.gain) + direction * 3 * size;
    const T* bias = static_cast<const T*>(term.bias) + direction * 3 * size;
    if (!term.gain) {
#pragma omp simd
        for (int64_t i = 0; i < 3 * size; i++) {
            T x;
            take(product[i], x);
            finished[i] = x;
        }
        if (term.bias)
#pragma omp simd
            for (int64_t i = 0; i < 3 * size; i++) finished[i] += bias[i];
        return;
    }
    for (int gate = 0; gate < 3; gate++) {
        const int64_t at = gate * size;
        T sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < size; i++) {
            T x;
            take(product[at + i], x);
            plain[at + i] = x;
            sum += x;
        }
        const T mean = sum / T(size);
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < size; i++) {
            const T x = plain[at + i] - mean;
            plain[at + i] = x;
            squares += x * x;
        }
        const T scale = T(1) / std::sqrt(squares / T(size) + T(EPSILON));
        deviations[gate] = scale;
#pragma omp simd
        for (int64_t i = 0; i < size; i++) {
            const T x = plain[at + i] * scale;
            plain[at + i] = x;
            finished[at + i] = x * gain[at + i] + bias[at + i];
        }
    }
}

// Back through `finish`: from the gradient of the finished gates to that of the product, of gain and bias.
template <class T, class P>
INLINE void finish_backward(
    const Term& term, int64_t direction, int64_t row, int64_t size, int64_t sums, const T* __restrict plain,
    const T* __restrict gradient, const T* deviations) {
    P* out = static_cast<P*>(term.product_gradient) + direction * term.gradient_direction + row * 3 * size;
    const T* gain = static_cast<const T*>(term.gain) + direction * 3 * size;
    T* gain_gradient = static_cast<T*>(term.gain_gradient) + sums;
    T* bias_gradient = static_cast<T*>(term.bias_gradient) + sums;
    if (term.bias_gradient)
#pragma omp simd
        for (int64_t i = 0; i < 3 * size; i++) bias_gradient[i] += gradient[i];
    if (!term.gain) {
#pragma omp simd
        for (int64_t i = 0; i < 3 * size; i++) put(gradient[i], out[i]);
        return;
    }
    for (int gate = 0; gate < 3; gate++) {
        const int64_t at = gate * size;
        T sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
        for (int64_t i = 0; i < size; i++) {
            const T g = gradient[at + i], x = plain[at + i];
            gain_gradient[at + i] += g * x;
            sum += g * gain[at + i];
            along += g * gain[at + i] * x;
        }
        const T mean = sum / T(size), slope = along / T(size), scale = deviations[gate];
#pragma omp simd
        for (int64_t i = 0; i < size; i++)
            put(scale * (gradient[at + i] * gain[at + i] - mean - plain[at + i] * slope), out[at + i]);
    }
}

template <class T, class P>
INLINE void gru_forward_rows(
    const Term* terms, int count, int64_t first, int64_t last, int64_t batch, int64_t size, const T* hidden,
    T* updated) {
    std::vector<T> memory(9 * size);
    T *total = memory.data(), *one = total + 3 * size, *scratch = one + 3 * size;
    T deviations[3];
    for (int64_t row = first; row < last; row++) {
        const int64_t direction = row / batch, within = row % batch;
        std::fill(total, total + 3 * size, T(0));
        for (int k = 0; k + 1 < count; k++) {
            finish<T, P>(terms[k], direction, within, size, scratch, one, deviations);
#pragma omp simd
            for (int64_t i = 0; i < 3 * size; i++) total[i] += one[i];
        }
        finish<T, P>(terms[count - 1], direction, within, size, scratch, one, deviations);
        const T* h = hidden + row * size;
        T* out = updated + row * size;
#pragma omp simd
        for (int64_t i = 0; i < size; i++) {
            const T reset = sigmoid(total[i] + one[i]), update = sigmoid(total[size + i] + one[size + i]);
            const T proposal = tanh_of(total[2 * size + i] + reset * one[2 * size + i]);
            out[i] = proposal + update * (h[i] - proposal);
        }
    }
}

template <class T, class P>
INLINE void gru_backward_rows(
    const Term* terms, int count, int64_t chunk, int64_t directions, int64_t first, int64_t last, int64_t batch,
    int64_t size, const T* hidden, const T* gradient, T* hidden_gradient) {
    std::vector<T> memory((count + 4) * 3 * size), deviations(3 * count);
    T *plain = memory.data(), *total = plain + count * 3 * size, *one = total + 3 * size;
    T *above = one + 3 * size, *recurrent = above + 3 * size;
    for (int64_t row = first; row < last; row++) {
        const int64_t direction = row / batch, within = row % batch;
        const int64_t sums = (chunk * directions + direction) * 3 * size;
        std::fill(total, total + 3 * size, T(0));
        for (int k = 0; k < count; k++) {
            finish<T, P>(terms[k], direction, within, size, plain + k * 3 * size, one, &deviations[3 * k]);
            if (k + 1 < count)
#pragma omp simd
                for (int64_t i = 0; i < 3 * size; i++) total[i] += one[i];
        }
        const T *h = hidden + row * size, *g = gradient + row * size;
        T* out = hidden_gradient + row * size;
#pragma omp simd
        for (int64_t i = 0; i < size; i++) {
            const T reset = sigmoid(total[i] + one[i]), update = sigmoid(total[size + i] + one[size + i]);
            const T proposal = tanh_of(total[2 * size + i] + reset * one[2 * size + i]);
            const T inner = g[i] * (T(1) - update) * (T(1) - proposal * proposal);
            above[i] = recurrent[i] = inner * one[2 * size + i] * reset * (T(1) - reset);
            above[size + i] = recurrent[size + i] = g[i] * (h[i] - proposal) * update * (T(1) - update);
            above[2 * size + i] = inner;
            recurrent[2 * size + i] = inner * reset;
            out[i] = g[i] * update;
        }
        for (int k = 0; k < count; k++)
            finish_backward<T, P>(
                terms[k], direction, within, size, sums, plain + k * 3 * size, k + 1 < count ? above : recurrent,
                &deviations[3 * k]);
    }
}

// e_ns = v . tanh(q_n + k_s (+ extra)), where `rows` consecutive n share a source; 0 where a source is not `valid`.
template <class T>
INLINE void additive_forward_rows(
    int64_t first, int64_t last, int64_t rows, int64_t length, int64_t size, const T* query, const T* keys,
    const T* extra, const T* v, const bool* valid, T* energies) {
    for (int64_t n = first; n < last; n++) {
        const T* q = query + n * size;
        for (int64_t s = 0; s < length; s++) {
            const int64_t at = (n / rows) * length + s;
            if (valid && !valid[at]) {
                energies[n * length + s] = T(0);
                continue;
            }
            const T* k = keys + at * size;
            T energy = 0;
            if (extra) {
                const T* x = extra + (n * length + s) * size;
#pragma omp simd reduction(+ : energy)
                for (int64_t a = 0; a < size; a++) energy += v[a] * tanh_of(q[a] + k[a] + x[a]);
            } else {
#pragma omp simd reduction(+ : energy)
                for (int64_t a = 0; a < size; a++) energy += v[a] * tanh_of(q[a] + k[a]);
            }
            energies[n * length + s] = energy;
        }
    }
}

template <class T>
INLINE void additive_backward_rows(
    int64_t chunk, int64_t first, int64_t last, int64_t length, int64_t size, const T* query, const T* keys,
    const T* extra, const T* v, const T* gradient, T* query_gradient, T* keys_gradient, T* extra_gradient,
    T* v_gradient) {
    T* v_sum = v_gradient + chunk * size;
    for (int64_t n = first; n < last; n++) {
        const T* q = query + n * size;
        T* q_sum = query_gradient + n * size;
        std::fill(q_sum, q_sum + size, T(0));
        for (int64_t s = 0; s < length; s++) {
            const T g = gradient[n * length + s];
            if (g == T(0) && !extra) continue;  // padding
            const int64_t at = (n * length + s) * size;
            const T* k = keys + at;
            T* k_sum = keys_gradient + at;
            const T* x = extra ? extra + at : nullptr;
            T* x_gradient = extra ? extra_gradient + at : nullptr;
            if (extra) {
#pragma omp simd
                for (int64_t a = 0; a < size; a++) {
                    const T t = tanh_of(q[a] + k[a] + x[a]), d = g * v[a] * (T(1) - t * t);
                    v_sum[a] += g * t;
                    q_sum[a] += d;
                    k_sum[a] += d;
                    x_gradient[a] = d;
                }
            } else {
#pragma omp simd
                for (int64_t a = 0; a < size; a++) {
                    const T t = tanh_of(q[a] + k[a]), d = g * v[a] * (T(1) - t * t);
                    v_sum[a] += g * t;
                    q_sum[a] += d;
                    k_sum[a] += d;
                }
            }
        }
    }
}

// From the product with the vocabulary to the gradient of the cross-entropy, in place: softmax minus (1 - smoothing) at
// the target. The negative log-likelihood and the target's logit of each row come back.
template <class T, class P>
INLINE void loss_rows(
    int64_t chunk, int64_t first, int64_t last, int64_t vocabulary, const T* bias, const int64_t* targets,
    const T* counted, T smoothing, P* product, T* bias_gradient, T* nll, T* chosen) {
    std::vector<T> memory(vocabulary);
    T* logits = memory.data();
    T* b_sum = bias_gradient + chunk * vocabulary;
    for (int64_t n = first; n < last; n++) {
        P* row = product + n * vocabulary;
        if (counted && counted[n] == T(0)) {
            for (int64_t i = 0; i < vocabulary; i++) put(T(0), row[i]);
            nll[n] = chosen[n] = 0;
            continue;
        }
        T largest = -INFINITY, sum = 0;
#pragma omp simd reduction(max : largest)
        for (int64_t i = 0; i < vocabulary; i++) {
            T x;
            take(row[i], x);
            x += bias[i];
            logits[i] = x;
            largest = x > largest ? x : largest;
        }
        const T target = logits[targets[n]];
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < vocabulary; i++) {
            const T x = exponential(logits[i] - largest);
            logits[i] = x;
            sum += x;
        }
        const T share = T(1) / sum;
        logits[targets[n]] -= (T(1) - smoothing) * sum;
#pragma omp simd
        for (int64_t i = 0; i < vocabulary; i++) {
            const T x = logits[i] * share;
            b_sum[i] += x;
            put(x, row[i]);
        }
        nll[n] = largest + std::log(sum) - target;
        chosen[n] = target;
    }
}

// Logits become log-probabilities, in place.
template <class T> INLINE void log_softmax_rows(int64_t first, int64_t last, int64_t vocabulary, T* logits) {
    for (int64_t n = first; n < last; n++) {
        T* row = logits + n * vocabulary;
        T largest = -INFINITY, sum = 0;
#pragma omp simd reduction(max : largest)
        for (int64_t i = 0; i < vocabulary; i++) largest = row[i] > largest ? row[i] : largest;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < vocabulary; i++) sum += exponential(row[i] - largest);
        const T normalizer = largest + std::log(sum);
#pragma omp simd
        for (int64_t i = 0; i < vocabulary; i++) row[i] -= normalizer;
    }
}

// The best of the numbers i, i + places, i + 2 places ..., of which there are `folds`, and what remains of a row.
template <class T>
INLINE void fold_rows(
    int64_t first, int64_t last, int64_t vocabulary, int64_t folds, const T* values, T* best) {
    const int64_t places = vocabulary / folds, rest = vocabulary - places * folds;
    for (int64_t n = first; n < last; n++) {
        const T* row = values + n * vocabulary;
        T* out = best + n * (places + rest);
        std::copy(row, row + places, out);
        for (int64_t fold = 1; fold < folds; fold++) {
            const T* layer = row + fold * places;
#pragma omp simd
            for (int64_t i = 0; i < places; i++) out[i] = layer[i] > out[i] ? layer[i] : out[i];
        }
        std::copy(row + places * folds, row + vocabulary, out + places);
    }
}

// What the loader may choose among must be functions of their own, and a parallel region is none.

#define WORKERS(NAME, T, P)                                                                                             \
    FOR_EACH_PROCESSOR void gru_forward_##NAME(                                                                        \
        const Term* terms, int count, int64_t first, int64_t last, int64_t batch, int64_t size, const T* hidden,       \
        T* updated) {                                                                                                  \
        gru_forward_rows<T, P>(terms, count, first, last, batch, size, hidden, updated);                               \
    }                                                                                                                  \
    FOR_EACH_PROCESSOR void gru_backward_##NAME(                                                                       \
        const Term* terms, int count, int64_t chunk, int64_t directions, int64_t first, int64_t last, int64_t batch,   \
        int64_t size, const T* hidden, const T* gradient, T* hidden_gradient) {                                        \
        gru_backward_rows<T, P>(                                                                                       \
            terms, count, chunk, directions, first, last, batch, size, hidden, gradient, hidden_gradient);             \
    }                                                                                                                  \
    FOR_EACH_PROCESSOR void loss_##NAME(                                                                               \
        int64_t chunk, int64_t first, int64_t last, int64_t vocabulary, const T* bias, const int64_t* targets,         \
        const T* counted, T smoothing, P* product, T* bias_gradient, T* nll, T* chosen) {                              \
        loss_rows<T, P>(                                                                                               \
            chunk, first, last, vocabulary, bias, targets, counted, smoothing, product, bias_gradient, nll, chosen);   \
    }
#define TYPE_WORKERS(T)                                                                                                \
    FOR_EACH_PROCESSOR void log_softmax_##T(int64_t first, int64_t last, int64_t vocabulary, T* logits) {              \
        log_softmax_rows<T>(first, last, vocabulary, logits);                                                          \
    }                                                                                                                  \
    FOR_EACH_PROCESSOR void fold_##T(                                                                                  \
        int64_t first, int64_t last, int64_t vocabulary, int64_t folds, const T* values, T* best) {                    \
        fold_rows<T>(first, last, vocabulary, folds, values, best);                                                    \
    }                                                                                                                  \
    FOR_EACH_PROCESSOR void additive_forward_##T(                                                                      \
        int64_t first, int64_t last, int64_t rows, int64_t length, int64_t size, const T* query, const T* keys,        \
        const T* extra, const T* v, const bool* valid, T* energies) {                                                  \
        additive_forward_rows<T>(first, last, rows, length, size, query, keys, extra, v, valid, energies);             \
    }                                                                                                                  \
    FOR_EACH_PROCESSOR void additive_backward_##T(                                                                     \
        int64_t chunk, int64_t first, int64_t last, int64_t length, int64_t size, const T* query, const T* keys,       \
        const T* extra, const T* v, const T* gradient, T* query_gradient, T* keys_gradient, T* extra_gradient,         \
        T* v_gradient) {                                                                                               \
        additive_backward_rows<T>(                                                                                     \
            chunk, first, last, length, size, query, keys, extra, v, gradient, query_gradient, keys_gradient,          \
            extra_gradient, v_gradient);                                                                               \
    }

WORKERS(float, float, float)
WORKERS(bfloat16, float, bfloat16)
WORKERS(double, double, double)
TYPE_WORKERS(float)
TYPE_WORKERS(double)

// What is taken of OpenMP: by name, since what a compiler makes of a parallel region is for its own runtime, and torch may
// have brought the other. GNU's and LLVM's both have these names. Without them one thread does all chunks.
struct OpenMP {
    void (*parallel)(void (*region)(void*), void* data, unsigned num_threads, unsigned flags);  // GOMP_parallel
    int (*thread)();                                                                            // omp_get_thread_num
    int (*num_threads)();                                                                       // omp_get_num_threads
} openmp{};

template <class Work> struct Chunks {
    int64_t rows;
    int count;
    const Work& work;

    void run(int first, int step) const {
        for (int chunk = first; chunk < count; chunk += step)
            work(chunk, rows * chunk / count, rows * (chunk + 1) / count);
    }
    static void run_share(void* chunks) {
        static_cast<const Chunks*>(chunks)->run(openmp.thread(), openmp.num_threads());
    }
};

template <class Work> void in_chunks(int64_t rows, int count, const Work& work) {
    Chunks<Work> chunks{rows, count, work};
    if (count > 1 && openmp.parallel)
        openmp.parallel(Chunks<Work>::run_share, &chunks, unsigned(count), 0);
    else
        chunks.run(0, 1);
}

}  // namespace kernels, or an unnamed one

extern "C" {

// To be raised with every change that the other side sees (VERSION in native.py): what was compiled may be older.
extern const int32_t nmt_kernels_version;
const int32_t nmt_kernels_version = 3;

// To be called before any other, where there is an OpenMP.
void nmt_take_openmp(decltype(OpenMP::parallel) parallel, decltype(OpenMP::thread) thread,
                     decltype(OpenMP::num_threads) num_threads) {
    openmp = {parallel, thread, num_threads};
}

#define ENTRIES(NAME, T, P)                                                                                             \
    void nmt_gru_forward_##NAME(                                                                                       \
        const Term* terms, int count, int64_t directions, int64_t batch, int64_t size, int chunks, const T* hidden,    \
        T* updated) {                                                                                                  \
        in_chunks(directions* batch, chunks, [=](int, int64_t first, int64_t last) {                                   \
            gru_forward_##NAME(terms, count, first, last, batch, size, hidden, updated);                               \
        });                                                                                                            \
    }                                                                                                                  \
    void nmt_gru_backward_##NAME(                                                                                      \
        const Term* terms, int count, int64_t directions, int64_t batch, int64_t size, int chunks, const T* hidden,    \
        const T* gradient, T* hidden_gradient) {                                                                       \
        in_chunks(directions* batch, chunks, [=](int chunk, int64_t first, int64_t last) {                             \
            gru_backward_##NAME(                                                                                       \
                terms, count, chunk, directions, first, last, batch, size, hidden, gradient, hidden_gradient);         \
        });                                                                                                            \
    }                                                                                                                  \
    void nmt_loss_##NAME(                                                                                              \
        int64_t rows, int64_t vocabulary, int chunks, const T* bias, const int64_t* targets, const T* counted,         \
        double smoothing, P* product, T* bias_gradient, T* nll, T* chosen) {                                           \
        in_chunks(rows, chunks, [=](int chunk, int64_t first, int64_t last) {                                          \
            loss_##NAME(                                                                                               \
                chunk, first, last, vocabulary, bias, targets, counted, T(smoothing), product, bias_gradient, nll,     \
                chosen);                                                                                               \
        });                                                                                                            \
    }
#define TYPE_ENTRIES(T)                                                                                                \
    void nmt_log_softmax_##T(int64_t rows, int64_t vocabulary, int chunks, T* logits) {                                \
        in_chunks(rows, chunks, [=](int, int64_t first, int64_t last) {                                                \
            log_softmax_##T(first, last, vocabulary, logits);                                                          \
        });                                                                                                            \
    }                                                                                                                  \
    void nmt_fold_##T(int64_t rows, int64_t vocabulary, int64_t folds, int chunks, const T* values, T* best) {         \
        in_chunks(rows, chunks, [=](int, int64_t first, int64_t last) {                                                \
            fold_##T(first, last, vocabulary, folds, values, best);                                                    \
        });                                                                                                            \
    }                                                                                                                  \
    void nmt_additive_forward_##T(                                                                                     \
        int64_t rows, int64_t rows_a_source, int64_t length, int64_t size, int chunks, const T* query, const T* keys,  \
        const T* extra, const T* v, const bool* valid, T* energies) {                                                  \
        in_chunks(rows, chunks, [=](int, int64_t first, int64_t last) {                                                \
            additive_forward_##T(first, last, rows_a_source, length, size, query, keys, extra, v, valid, energies);    \
        });                                                                                                            \
    }                                                                                                                  \
    void nmt_additive_backward_##T(                                                                                    \
        int64_t rows, int64_t length, int64_t size, int chunks, const T* query, const T* keys, const T* extra,         \
        const T* v, const T* gradient, T* query_gradient, T* keys_gradient, T* extra_gradient, T* v_gradient) {        \
        in_chunks(rows, chunks, [=](int chunk, int64_t first, int64_t last) {                                          \
            additive_backward_##T(                                                                                     \
                chunk, first, last, length, size, query, keys, extra, v, gradient, query_gradient, keys_gradient,      \
                extra_gradient, v_gradient);                                                                           \
        });                                                                                                            \
    }

ENTRIES(float, float, float)
ENTRIES(bfloat16, float, bfloat16)
ENTRIES(double, double, double)
TYPE_ENTRIES(float)
TYPE_ENTRIES(double)
}
