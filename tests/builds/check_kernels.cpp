// The kernels against their formulas in double precision, without Python and torch: what runs where these are not at
// hand, as under an emulator. Gradients are compared with differences, so that none of them is derived a second time.
// A line for each value that is off, and status 1, or one line that says how many were right.

#include "kernels.cpp"

#include <cstdio>
#include <functional>
#include <string>

namespace {

using Numbers = std::vector<double>;

int num_right = 0, num_wrong = 0;
uint64_t seed = 1;

double uniform() {  // from -1 to 1
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return double(int64_t(seed) >> 11) / double(int64_t(1) << 52);
}

// A number as a kernel gets it, and back.
template <class T> T narrow(double from) { return T(from); }
template <> bfloat16 narrow<bfloat16>(double from) {
    bfloat16 to;
    put(float(from), to);
    return to;
}
template <class T> double widen(T from) { return from; }
template <> double widen<bfloat16>(bfloat16 from) {
    float to;
    take(from, to);
    return to;
}
template <class T> std::vector<T> narrowed(const Numbers& from) {
    std::vector<T> to;
    for (double one : from) to.push_back(narrow<T>(one));
    return to;
}
template <class T> Numbers widened(const std::vector<T>& from) {
    Numbers to;
    for (T one : from) to.push_back(widen(one));
    return to;
}

// So many numbers of type T, in double precision.
template <class T> Numbers some(int64_t count, double scale = 1) {
    Numbers numbers;
    for (int64_t i = 0; i < count; i++) numbers.push_back(widen(narrow<T>(scale * uniform())));
    return numbers;
}

void check(const std::string& name, double given, double expected, double tolerance) {
    const bool is_right = std::fabs(given - expected) <= tolerance * (1 + std::fabs(expected));  // not where one is NaN
    (is_right ? num_right : num_wrong)++;
    if (!is_right) std::printf("%s: %.9g in place of %.9g\n", name.c_str(), given, expected);
}
void check(const std::string& name, const Numbers& given, const Numbers& expected, double tolerance) {
    check(name + ", how many", double(given.size()), double(expected.size()), 0);
    for (size_t i = 0; i < given.size() && i < expected.size(); i++)
        check(name + " " + std::to_string(i), given[i], expected[i], tolerance);
}

// The gradient of a function of these numbers.
Numbers differences(Numbers& at, const std::function<double()>& function) {
    constexpr double step = 1e-5;
    Numbers gradient;
    for (double& number : at) {
        const double before = number;
        number = before + step;
        const double above = function();
        number = before - step;
        gradient.push_back((above - function()) / (2 * step));
        number = before;
    }
    return gradient;
}

double dot(const Numbers& a, const Numbers& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); i++) sum += a[i] * b[i];
    return sum;
}

// Sums of which every chunk has its own, each begun with `START`, as one.
constexpr double START = 0.25;
template <class T> Numbers summed(const std::vector<T>& chunks, int count) {
    Numbers sum(chunks.size() / size_t(count), -START * count);
    for (size_t i = 0; i < chunks.size(); i++) sum[i % sum.size()] += widen(chunks[i]);
    return sum;
}

// A kernel of a type, with what its sums, its products and differences may be off by.
struct Precision {
    const char* name;
    double exact, product, difference;
};

// A step of a GRU

struct Layer {
    int64_t directions, batch, size;
    std::vector<Numbers> products, gains, biases;  // of each term; no gains, no biases: neither is there
    Numbers hidden;

    Numbers updated() const {
        Numbers out;
        for (int64_t direction = 0; direction < directions; direction++)
            for (int64_t row = 0; row < batch; row++) {
                Numbers above(3 * size), recurrent;
                for (size_t k = 0; k < products.size(); k++) {
                    const Numbers term = finished(k, direction, row);
                    if (k + 1 == products.size()) recurrent = term;
                    else
                        for (size_t i = 0; i < term.size(); i++) above[i] += term[i];
                }
                for (int64_t i = 0; i < size; i++) {
                    const double reset = 1 / (1 + std::exp(-above[i] - recurrent[i]));
                    const double update = 1 / (1 + std::exp(-above[size + i] - recurrent[size + i]));
                    const double proposal = std::tanh(above[2 * size + i] + reset * recurrent[2 * size + i]);
                    const double before = hidden[(direction * batch + row) * size + i];
                    out.push_back((1 - update) * proposal + update * before);
                }
            }
        return out;
    }

    Numbers finished(size_t k, int64_t direction, int64_t row) const {
        Numbers term;
        for (int gate = 0; gate < 3; gate++) {
            const double* x = &products[k][(direction * batch + row) * 3 * size + gate * size];
            double mean = 0, variance = 0;
            for (int64_t i = 0; i < size; i++) mean += x[i] / size;
            for (int64_t i = 0; i < size; i++) variance += (x[i] - mean) * (x[i] - mean) / size;
            for (int64_t i = 0; i < size; i++) {
                const int64_t at = direction * 3 * size + gate * size + i;
                double y = x[i];
                if (!gains.empty()) y = (y - mean) / std::sqrt(variance + 1e-5) * gains[k][at];
                term.push_back(y + (biases.empty() ? 0 : biases[k][at]));
            }
        }
        return term;
    }
};

template <class T, class P>
using Forward = void(const Term*, int, int64_t, int64_t, int64_t, int, const T*, T*);
template <class T, class P>
using Backward = void(const Term*, int, int64_t, int64_t, int64_t, int, const T*, const T*, T*);

template <class T, class P>
void check_gru(const Precision& type, Forward<T, P> forward, Backward<T, P> backward, int64_t size, int chunks,
               int num_terms, bool has_gain, bool has_bias) {
    const std::string name = std::string("GRU ") + type.name;
    constexpr int64_t directions = 2, batch = 3;
    const int64_t numbers = directions * batch * size, gates = 3 * size;
    Layer layer{directions, batch, size, {}, {}, {}, some<T>(numbers)};
    const Numbers gradient = some<T>(numbers);
    std::vector<std::vector<P>> products, product_gradients;
    std::vector<std::vector<T>> gains, biases, gain_gradients, bias_gradients;
    std::vector<Term> terms;
    for (int k = 0; k < num_terms; k++) {
        layer.products.push_back(some<P>(3 * numbers, 3));
        if (has_gain) layer.gains.push_back(some<T>(directions * gates));
        if (has_bias) layer.biases.push_back(some<T>(directions * gates));
        products.push_back(narrowed<P>(layer.products[k]));
        product_gradients.emplace_back(3 * numbers);
        gains.push_back(has_gain ? narrowed<T>(layer.gains[k]) : std::vector<T>());
        biases.push_back(has_bias ? narrowed<T>(layer.biases[k]) : std::vector<T>());
        gain_gradients.emplace_back(has_gain ? chunks * directions * gates : 0, T(START));
        bias_gradients.emplace_back(has_bias ? chunks * directions * gates : 0, T(START));
    }
    for (int k = 0; k < num_terms; k++)
        terms.push_back({products[k].data(), product_gradients[k].data(), has_gain ? gains[k].data() : nullptr,
                         has_bias ? biases[k].data() : nullptr, has_gain ? gain_gradients[k].data() : nullptr,
                         has_bias ? bias_gradients[k].data() : nullptr, batch * gates, batch * gates});
    const std::vector<T> hidden = narrowed<T>(layer.hidden), along = narrowed<T>(gradient);
    std::vector<T> updated(numbers), hidden_gradient(numbers);
    forward(terms.data(), num_terms, directions, batch, size, chunks, hidden.data(), updated.data());
    backward(terms.data(), num_terms, directions, batch, size, chunks, hidden.data(), along.data(),
             hidden_gradient.data());
    check(name, widened(updated), layer.updated(), type.exact);
    const auto value = [&] { return dot(layer.updated(), gradient); };
    check(name + ", gradient of the state", widened(hidden_gradient), differences(layer.hidden, value),
          type.difference);
    for (int k = 0; k < num_terms; k++) {
        check(name + ", gradient of a product", widened(product_gradients[k]), differences(layer.products[k], value),
              type.product);
        if (has_gain)
            check(name + ", gradient of a gain", summed(gain_gradients[k], chunks), differences(layer.gains[k], value),
                  type.difference);
        if (has_bias)
            check(name + ", gradient of a bias", summed(bias_gradients[k], chunks), differences(layer.biases[k], value),
                  type.difference);
    }
}

// The additive score

struct Score {
    int64_t num_rows, rows_a_source, length, size;
    Numbers query, keys, extra, v;  // no extra: it is not there

    Numbers energies() const {
        Numbers out;
        for (int64_t n = 0; n < num_rows; n++)
            for (int64_t s = 0; s < length; s++) {
                double energy = 0;
                for (int64_t a = 0; a < size; a++) {
                    const double key = keys[((n / rows_a_source) * length + s) * size + a];
                    const double more = extra.empty() ? 0 : extra[(n * length + s) * size + a];
                    energy += v[a] * std::tanh(query[n * size + a] + key + more);
                }
                out.push_back(energy);
            }
        return out;
    }
};

template <class T>
using ScoreForward = void(int64_t, int64_t, int64_t, int64_t, int, const T*, const T*, const T*, const T*, const bool*,
                          T*);
template <class T>
using ScoreBackward = void(int64_t, int64_t, int64_t, int, const T*, const T*, const T*, const T*, const T*, T*, T*,
                           T*, T*);

template <class T>
void check_score(const Precision& type, ScoreForward<T> forward, ScoreBackward<T> backward, int64_t size, int chunks,
                 int64_t rows_a_source, bool has_extra) {
    const std::string name = std::string("additive score ") + type.name;
    constexpr int64_t num_rows = 4, length = 3;
    Score score{num_rows, rows_a_source, length, size, some<T>(num_rows * size),
                some<T>(num_rows / rows_a_source * length * size),
                has_extra ? some<T>(num_rows * length * size) : Numbers(), some<T>(size)};
    const std::vector<T> query = narrowed<T>(score.query), keys = narrowed<T>(score.keys);
    const std::vector<T> extra = narrowed<T>(score.extra), v = narrowed<T>(score.v);
    std::vector<T> energies(num_rows * length);
    forward(num_rows, rows_a_source, length, size, chunks, query.data(), keys.data(),
            has_extra ? extra.data() : nullptr, v.data(), nullptr, energies.data());
    check(name, widened(energies), score.energies(), type.exact);
    bool valid[num_rows * length];  // the sources have 3, 2, 1 and 3 pieces
    Numbers of_pieces = score.energies();
    for (int64_t source = 0; source < num_rows / rows_a_source; source++)
        for (int64_t s = 0; s < length; s++) valid[source * length + s] = s < length - source % 3;
    for (int64_t n = 0; n < num_rows; n++)
        for (int64_t s = 0; s < length; s++)
            if (!valid[(n / rows_a_source) * length + s]) of_pieces[n * length + s] = 0;
    forward(num_rows, rows_a_source, length, size, chunks, query.data(), keys.data(),
            has_extra ? extra.data() : nullptr, v.data(), valid, energies.data());
    check(name + " without padding", widened(energies), of_pieces, type.exact);
    if (rows_a_source > 1) return;  // only a search has these
    Numbers gradient = some<T>(num_rows * length);
    gradient[1] = 0;  // as of padding
    const std::vector<T> along = narrowed<T>(gradient);
    std::vector<T> query_gradient(query.size()), extra_gradient(extra.size());
    std::vector<T> keys_gradient(keys.size(), T(START)), v_gradient(size * chunks, T(START));
    backward(num_rows, length, size, chunks, query.data(), keys.data(), has_extra ? extra.data() : nullptr, v.data(),
             along.data(), query_gradient.data(), keys_gradient.data(), has_extra ? extra_gradient.data() : nullptr,
             v_gradient.data());
    const auto value = [&] { return dot(score.energies(), gradient); };
    check(name + ", gradient of the query", widened(query_gradient), differences(score.query, value), type.difference);
    check(name + ", gradient of the keys", summed(keys_gradient, 1), differences(score.keys, value), type.difference);
    check(name + ", gradient of extra", widened(extra_gradient), differences(score.extra, value), type.difference);
    check(name + ", gradient of v", summed(v_gradient, chunks), differences(score.v, value), type.difference);
}

// Rows of the vocabulary

double log_sum(const Numbers& row) {
    double sum = 0;
    for (double x : row) sum += std::exp(x);
    return std::log(sum);
}

template <class T, class P>
using Loss = void(int64_t, int64_t, int, const T*, const int64_t*, const T*, double, P*, T*, T*, T*);

template <class T, class P> void check_loss(const Precision& type, Loss<T, P> loss, int64_t vocabulary, int chunks) {
    const std::string name = std::string("loss ") + type.name;
    constexpr int64_t num_rows = 4;
    constexpr double smoothing = 0.125;
    Numbers logits = some<P>(num_rows * vocabulary, 4), bias = some<T>(vocabulary);
    const std::vector<int64_t> targets{0, vocabulary - 1, vocabulary / 2, 0};
    const Numbers counts{1, 1, 0, 1};
    const auto row_of = [&](int64_t n) {
        Numbers row(logits.begin() + n * vocabulary, logits.begin() + (n + 1) * vocabulary);
        for (int64_t i = 0; i < vocabulary; i++) row[i] += bias[i];
        return row;
    };
    const auto value = [&] {
        double sum = 0;
        for (int64_t n = 0; n < num_rows; n++)
            sum += counts[n] * (log_sum(row_of(n)) - (1 - smoothing) * row_of(n)[targets[n]]);
        return sum;
    };
    std::vector<P> product = narrowed<P>(logits);
    const std::vector<T> bias_given = narrowed<T>(bias), counted = narrowed<T>(counts);
    std::vector<T> bias_gradient(vocabulary * chunks, T(START)), nll(num_rows), chosen(num_rows);
    loss(num_rows, vocabulary, chunks, bias_given.data(), targets.data(), counted.data(), smoothing, product.data(),
         bias_gradient.data(), nll.data(), chosen.data());
    for (int64_t n = 0; n < num_rows; n++) {
        const Numbers row = row_of(n);
        check(name, widen(nll[n]), counts[n] * (log_sum(row) - row[targets[n]]), type.exact);
        check(name + ", the target's logit", widen(chosen[n]), counts[n] * row[targets[n]], type.exact);
    }
    check(name + ", gradient of the product", widened(product), differences(logits, value), type.product);
    check(name + ", gradient of the bias", summed(bias_gradient, chunks), differences(bias, value), type.difference);
}

template <class T>
void check_vocabulary(const Precision& type, void log_softmax(int64_t, int64_t, int, T*),
                      void fold(int64_t, int64_t, int64_t, int, const T*, T*), int64_t vocabulary, int chunks) {
    const std::string name = std::string(" of a vocabulary ") + type.name;
    constexpr int64_t num_rows = 4;
    const Numbers logits = some<T>(num_rows * vocabulary, 4);
    std::vector<T> given = narrowed<T>(logits);
    given[vocabulary] = T(NAN);  // the second row
    log_softmax(num_rows, vocabulary, chunks, given.data());
    for (int64_t n = 0; n < num_rows; n++) {
        const Numbers row(logits.begin() + n * vocabulary, logits.begin() + (n + 1) * vocabulary);
        for (int64_t i = 0; i < vocabulary; i++)
            if (n == 1) check("not a number" + name, std::isnan(given[n * vocabulary + i]), 1, 0);
            else check("log-probability" + name, given[n * vocabulary + i], row[i] - log_sum(row), type.exact);
    }
    const std::vector<T> values = narrowed<T>(logits);
    for (int64_t folds : {1, 3, 8}) {
        const int64_t places = vocabulary / folds, width = places + vocabulary % folds;
        std::vector<T> best(num_rows * width);
        fold(num_rows, vocabulary, folds, chunks, values.data(), best.data());
        for (int64_t n = 0; n < num_rows; n++)
            for (int64_t m = 0; m < width; m++) {
                const T* row = &values[n * vocabulary];
                T largest = m < places ? row[m] : row[places * folds + m - places];
                for (int64_t at = m; m < places && at < places * folds; at += places)
                    largest = std::max(largest, row[at]);
                check("fold" + name, best[n * width + m], largest, 0);
            }
    }
}

void check_exponential() {
    for (float x = -87; x <= 88; x += 0.01f)
        check("exponential", exponential(x) / std::exp(double(x)), 1, 2e-7);
    check("exponential far below", exponential(-1e30f), std::exp(-87.0), 2e-7);
    check("exponential far above", exponential(1e30f) / std::exp(88.0), 1, 2e-7);
    check("exponential of not a number", std::isnan(exponential(NAN)), 1, 0);
}

void check_rounding() {
    const double step = 1.0 / 128;  // from one number of eight bits to the next, from 1 on
    const double pairs[][2] = {{1.49, 1}, {1.5, 2}, {2.5, 2}, {2.51, 3}, {0.5, 0}};
    for (const auto& [steps, expected] : pairs) {
        check("bfloat16", widen(narrow<bfloat16>(1 + steps * step)), 1 + expected * step, 0);
        check("bfloat16 below zero", widen(narrow<bfloat16>(-1 - steps * step)), -1 - expected * step, 0);
    }
    check("bfloat16 of infinity", std::isinf(widen(narrow<bfloat16>(INFINITY))), 1, 0);
    check("bfloat16 of not a number", std::isnan(widen(narrow<bfloat16>(NAN))), 1, 0);
}

void check_all(int chunks, std::initializer_list<int64_t> sizes) {
    const Precision single{"float", 1e-5, 5e-5, 5e-5}, half{"bfloat16", 1e-5, 1e-2, 5e-5};
    const Precision twice{"double", 1e-12, 1e-8, 1e-8};
    for (int64_t size : sizes) {
        for (int num_terms : {1, 2})
            for (int finish : {0, 1, 2}) {
                const bool has_gain = finish == 2, has_bias = finish > 0;
                check_gru<float, float>(single, nmt_gru_forward_float, nmt_gru_backward_float, size, chunks, num_terms,
                                        has_gain, has_bias);
                check_gru<float, bfloat16>(half, nmt_gru_forward_bfloat16, nmt_gru_backward_bfloat16, size, chunks,
                                           num_terms, has_gain, has_bias);
                check_gru<double, double>(twice, nmt_gru_forward_double, nmt_gru_backward_double, size, chunks,
                                          num_terms, has_gain, has_bias);
            }
        for (int rows_a_source : {1, 2})
            for (bool has_extra : {false, true}) {
                check_score<float>(single, nmt_additive_forward_float, nmt_additive_backward_float, size, chunks,
                                   rows_a_source, has_extra);
                check_score<double>(twice, nmt_additive_forward_double, nmt_additive_backward_double, size, chunks,
                                    rows_a_source, has_extra);
            }
        check_loss<float, float>(single, nmt_loss_float, 2 * size, chunks);
        check_loss<float, bfloat16>(half, nmt_loss_bfloat16, 2 * size, chunks);
        check_loss<double, double>(twice, nmt_loss_double, 2 * size, chunks);
        check_vocabulary<float>(single, nmt_log_softmax_float, nmt_fold_float, 2 * size, chunks);
        check_vocabulary<double>(twice, nmt_log_softmax_double, nmt_fold_double, 2 * size, chunks);
    }
}

}  // namespace

extern "C" {
void GOMP_parallel(void (*region)(void*), void* data, unsigned num_threads, unsigned flags);
int omp_get_thread_num();
int omp_get_num_threads();
}

int main() {
    check_exponential();
    check_rounding();
    check_all(1, {1, 4, 21});
    check_all(3, {4});
    nmt_take_openmp(GOMP_parallel, omp_get_thread_num, omp_get_num_threads);
    check_all(3, {4, 21});
    if (num_wrong == 0) std::printf("%d values are right\n", num_right);
    return num_wrong != 0;
}
