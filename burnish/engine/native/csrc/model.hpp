// A model as the steps see it: packed matrices, norms, branches, threads and room to work in.
#pragma once
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "api.h"
#include "branches.hpp"
#include "kernels.hpp"
#include "memory.hpp"
#include "pool.hpp"

namespace burnish {

constexpr int64_t kMatrices = 4;  // of a layer

struct Matrix {
  Kind kind = Kind::kFloat32;
  int64_t depth = 0, num_panels = 0;  // depth as padded, of the panels
  Memory panels, scales, bias;        // scales of int8 columns; bias may be empty

  int64_t panel_bytes() const { return depth * kColumns * size_of(kind); }
};

struct Layer {
  Matrix qkv, output, gate_up, down;
  std::vector<float> attention_norm, feed_norm, query_norm, key_norm;
  int64_t window = 0;  // 0: sees everything before
};

// What an adapter adds to the matrices of the layers, [layer * 4 + which]: up . down . row. Without panels: nothing.
struct LowRank {
  Matrix down, up;
};
using Adapter = std::vector<LowRank>;

// Buffers of one call, reused; "rows" are activations in the kernels' format, padded to kRowBlock rows.
struct Buffers {
  Memory hidden, rows, qkv, heads, mixed, inner, cosines, sines, logits, largest, sums, narrow, added;
};

}  // namespace burnish

struct burnish_model {
  Shape shape{};
  const burnish::Kernels* kernels = nullptr;
  std::unique_ptr<burnish::Pool> pool;
  std::vector<burnish::Layer> layers;
  burnish::Matrix head;
  std::vector<float> last_norm, inverse_frequencies;
  const void* embedding = nullptr;
  bool embedding_is_bf16 = false;
  std::unique_ptr<burnish::Branches> branches;
  std::unordered_map<int64_t, burnish::Adapter> adapters;
  burnish::Buffers buffers;

  burnish::Kind cache_kind() const { return static_cast<burnish::Kind>(shape.cache_kind); }
  // Whether activations are rounded to bfloat16: only where the products take it.
  bool rows_are_bf16() const {
    return kernels->takes_bf16 && static_cast<burnish::Kind>(shape.weights_kind) == burnish::Kind::kBfloat16;
  }
  bool heads_are_bf16() const { return kernels->takes_bf16 && cache_kind() == burnish::Kind::kBfloat16; }
};

namespace burnish {

// What numbers are divided by to become bytes; NaN if one is not finite, which no byte could say.
inline float scale_of(const float* row, int64_t count) {
  float most = 0, odd = 0;
  for (int64_t k = 0; k < count; k++) {
    most = std::max(most, std::fabs(row[k]));
    odd += row[k] * 0;
  }
  return (most > 0 ? most / 127 : 1) + odd;
}

const Kernels* kernels_of(const std::string& level);
std::string levels();

void pack(Pool& pool, const Linear* parts, int64_t num_parts, bool interleave, Kind kind, Matrix& matrix);

// Multiply rows with all panels and finish them, the panels shared out over the threads; `added` is null, or what
// adapters add to the product, in the order of its columns.
void apply(burnish_model& model, const Matrix& matrix, const void* rows, int64_t num_rows, const float* added, Then then,
           void* out, int64_t out_stride);

// How many new blocks these tokens take, on branches that are open.
int64_t blocks_needed(burnish_model& model, int64_t num_works, const int64_t* branches, const int64_t* counts);

void feed(burnish_model& model, int64_t num_works, const int64_t* branches, const int64_t* counts,
          const int64_t* token_ids, bool every_token, float* hidden);

enum class Ask { kLogits, kDraw, kScore };
struct HeadJob {
  Ask ask;
  int64_t num_rows;
  const float* hidden;
  const float* temperatures;
  const float* uniforms;
  int64_t* token_ids;  // drawn, or given
  float* out;          // logits, or log-probabilities
};
void run_head(burnish_model& model, const HeadJob& job);

}  // namespace burnish
