// Work on rows of a training step, each row through memory once: what torch does in five to ten passes.
//
// Numbers are float32 or bfloat16 in memory and float32 in between, rounded to nearest even where torch rounds. Rows
// are shared out among OpenMP's threads, torch's own; sums over rows go block by block, so that the number of threads
// changes no bit.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace {

constexpr int64_t kBlockRows = 64;     // of a sum over rows
constexpr int64_t kChunk = 16 * 1024;  // numbers of one task where rows do not matter

using Bfloat16 = uint16_t;

inline float bits_to_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline uint32_t float_to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

inline float get(float value) { return value; }
inline float get(Bfloat16 value) { return bits_to_float(static_cast<uint32_t>(value) << 16); }

inline void put(float& place, float value) { place = value; }
inline void put(Bfloat16& place, float value) {
  const uint32_t bits = float_to_bits(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  place = static_cast<Bfloat16>(value != value ? 0x7fc0 : rounded);
}

template <class T>
inline float rounded(float value) {
  T stored;
  put(stored, value);
  return get(stored);
}

// e^x to 2e-7 of itself; 0 below -87, infinite above 88. 2^n e^r with |r| <= ln 2 / 2, Taylor's series for e^r.
inline float exponential(float x) {
  const float clamped = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  const float n = std::nearbyint(clamped * 1.44269504f);
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const float value = sum * bits_to_float(static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23);
  return x != x ? x : (x < -87.0f ? 0.0f : (x > 88.0f ? std::numeric_limits<float>::infinity() : value));
}

inline float logistic(float x) { return 1.0f / (1.0f + exponential(-x)); }

// y = x / sqrt(mean(x^2) + eps) * weight; `inverse` keeps the factor of each row.
template <class T>
void norm(const T* x, const T* weight, T* y, float* inverse, int64_t rows, int64_t width, float eps, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < rows; i++) {
    const T* in = x + i * width;
    T* out = y + i * width;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t d = 0; d < width; d++) squares += get(in[d]) * get(in[d]);
    const float factor = 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
    inverse[i] = factor;
#pragma omp simd
    for (int64_t d = 0; d < width; d++) put(out[d], rounded<T>(get(in[d]) * factor) * get(weight[d]));
  }
}

// With n = x inverse and g = dy weight: dx = inverse (g - n mean(g n)), dweight = sum of dy n (by blocks of rows).
template <class T>
void norm_back(const T* dy, const T* x, const T* weight, const float* inverse, T* dx, float* dweight, int64_t rows,
               int64_t width, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t block = 0; block < (rows + kBlockRows - 1) / kBlockRows; block++) {
    float* sums = dweight == nullptr ? nullptr : dweight + block * width;
    if (sums != nullptr) std::memset(sums, 0, 4 * width);
    for (int64_t i = block * kBlockRows; i < rows && i < (block + 1) * kBlockRows; i++) {
      const T *above = dy + i * width, *in = x + i * width;
      T* out = dx + i * width;
      const float factor = inverse[i];
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t d = 0; d < width; d++) dot += get(above[d]) * get(weight[d]) * (get(in[d]) * factor);
      const float mean = dot / static_cast<float>(width);
#pragma omp simd
      for (int64_t d = 0; d < width; d++) {
        const float n = get(in[d]) * factor;
        put(out[d], factor * (get(above[d]) * get(weight[d]) - n * mean));
      }
      if (sums == nullptr) continue;
#pragma omp simd
      for (int64_t d = 0; d < width; d++) sums[d] += get(above[d]) * (get(in[d]) * factor);
    }
  }
}

// y = silu(gate) up.
template <class T>
void gated(const T* gate, const T* up, T* y, int64_t count, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t start = 0; start < count; start += kChunk) {
    const int64_t end = start + kChunk < count ? start + kChunk : count;
#pragma omp simd
    for (int64_t d = start; d < end; d++)
      put(y[d], rounded<T>(get(gate[d]) * logistic(get(gate[d]))) * get(up[d]));
  }
}

// With s = logistic(gate): dgate = dy up s (1 + gate (1 - s)), dup = dy gate s.
template <class T>
void gated_back(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t count, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t start = 0; start < count; start += kChunk) {
    const int64_t end = start + kChunk < count ? start + kChunk : count;
#pragma omp simd
    for (int64_t d = start; d < end; d++) {
      const float above = get(dy[d]), z = get(gate[d]), s = logistic(z);
      put(dgate[d], above * get(up[d]) * s * (1.0f + z * (1.0f - s)));
      put(dup[d], above * z * s);
    }
  }
}

// Of softmax(scale z): log-probabilities of some ids a row, the log of the normaliser, the entropy; with `keeps`, z
// becomes the probabilities.
template <class T>
void softmax(T* z, const int64_t* ids, float* logprobs, float* log_sums, float* entropies, int64_t rows, int64_t width,
             int64_t num_ids, float scale, bool keeps, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < rows; i++) {
    T* row = z + i * width;
    float most = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : most)
    for (int64_t v = 0; v < width; v++) most = most > get(row[v]) ? most : get(row[v]);
    const float top = most * scale;
    float sum = 0, weighted = 0;
#pragma omp simd reduction(+ : sum, weighted)
    for (int64_t v = 0; v < width; v++) {
      const float below = get(row[v]) * scale - top, p = exponential(below);
      sum += p;
      weighted += p * below;
    }
    const float log_sum = top + std::log(sum);
    log_sums[i] = log_sum;
    entropies[i] = std::log(sum) - weighted / sum;
    for (int64_t k = 0; k < num_ids; k++)
      logprobs[i * num_ids + k] = get(row[ids[i * num_ids + k]]) * scale - log_sum;
    if (!keeps) continue;
#pragma omp simd
    for (int64_t v = 0; v < width; v++) put(row[v], exponential(get(row[v]) * scale - log_sum));
  }
}

// z becomes its gradient: -p (above + of_entropy (log p + entropy)), and at each id what comes from its log-probability.
template <class T>
void softmax_back(T* z, const int64_t* ids, const float* of_logprobs, const float* log_sums, const float* of_entropies,
                  const float* entropies, int64_t rows, int64_t width, int64_t num_ids, float scale, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < rows; i++) {
    T* row = z + i * width;
    const int64_t* own_ids = ids + i * num_ids;
    const float* own = of_logprobs + i * num_ids;
    const float log_sum = log_sums[i], entropy = entropies[i];
    const float of_entropy = of_entropies == nullptr ? 0.0f : of_entropies[i];
    float above = 0;
    for (int64_t k = 0; k < num_ids; k++) above += own[k];
    const auto gradient = [=](float z_v) {
      const float logprob = z_v * scale - log_sum;
      return -exponential(logprob) * (above + of_entropy * (logprob + entropy));
    };
    std::vector<float> chosen(num_ids);  // before the logits are gone
    for (int64_t k = 0; k < num_ids; k++) chosen[k] = gradient(get(row[own_ids[k]]));
#pragma omp simd
    for (int64_t v = 0; v < width; v++) put(row[v], gradient(get(row[v])));
    for (int64_t k = 0; k < num_ids; k++) {
      for (int64_t j = 0; j < num_ids; j++)
        if (own_ids[j] == own_ids[k]) chosen[k] += own[j];
      put(row[own_ids[k]], chosen[k]);
    }
  }
}

// sum += x.
template <class T>
void add(const T* x, float* sum, int64_t count, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t start = 0; start < count; start += kChunk) {
    const int64_t end = start + kChunk < count ? start + kChunk : count;
#pragma omp simd
    for (int64_t d = start; d < end; d++) sum[d] += get(x[d]);
  }
}

}  // namespace

#define BURNISH_BOTH(name, ...)                                          \
  if (is_bf16) {                                                         \
    using T = Bfloat16;                                                  \
    name(__VA_ARGS__);                                                   \
  } else {                                                               \
    using T = float;                                                     \
    name(__VA_ARGS__);                                                   \
  }

extern "C" {

void burnish_norm(int is_bf16, const void* x, const void* weight, void* y, float* inverse, int64_t rows, int64_t width,
                  float eps, int threads) {
  BURNISH_BOTH(norm, (const T*)x, (const T*)weight, (T*)y, inverse, rows, width, eps, threads)
}

void burnish_norm_back(int is_bf16, const void* dy, const void* x, const void* weight, const float* inverse, void* dx,
                       float* dweight, int64_t rows, int64_t width, int threads) {
  BURNISH_BOTH(norm_back, (const T*)dy, (const T*)x, (const T*)weight, inverse, (T*)dx, dweight, rows, width, threads)
}

void burnish_gated(int is_bf16, const void* gate, const void* up, void* y, int64_t count, int threads) {
  BURNISH_BOTH(gated, (const T*)gate, (const T*)up, (T*)y, count, threads)
}

void burnish_gated_back(int is_bf16, const void* dy, const void* gate, const void* up, void* dgate, void* dup,
                        int64_t count, int threads) {
  BURNISH_BOTH(gated_back, (const T*)dy, (const T*)gate, (const T*)up, (T*)dgate, (T*)dup, count, threads)
}

void burnish_softmax(int is_bf16, void* z, const int64_t* ids, float* logprobs, float* log_sums, float* entropies,
                     int64_t rows, int64_t width, int64_t num_ids, float scale, int keeps, int threads) {
  BURNISH_BOTH(softmax, (T*)z, ids, logprobs, log_sums, entropies, rows, width, num_ids, scale, keeps != 0, threads)
}

void burnish_softmax_back(int is_bf16, void* z, const int64_t* ids, const float* of_logprobs, const float* log_sums,
                          const float* of_entropies, const float* entropies, int64_t rows, int64_t width,
                          int64_t num_ids, float scale, int threads) {
  BURNISH_BOTH(softmax_back, (T*)z, ids, of_logprobs, log_sums, of_entropies, entropies, rows, width, num_ids, scale,
               threads)
}

void burnish_add(int is_bf16, const void* x, float* sum, int64_t count, int threads) {
  BURNISH_BOTH(add, (const T*)x, sum, count, threads)
}
}
