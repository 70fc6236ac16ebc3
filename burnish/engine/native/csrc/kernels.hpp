// What one instruction set must offer; everything else is common code.
//
// Formats. A *panel* holds 16 output columns of a matrix: for each pair of depths (2k, 2k+1) the 16 columns in
//   float32: 16 values of 2k, then 16 of 2k+1;   int8: the same in bytes;
//   bfloat16: 16 pairs (2k, 2k+1): what vdpbf16ps and AMX tiles read ("VNNI" order).
// A *block* holds the keys and values of 32 tokens of one layer and head: two panels of keys (columns are tokens,
// depth is the head's width), then width / 16 panels of values (columns are the width, depth is tokens), and for
// int8 a scale for each token's key and value.
//
// Every result is a chain of additions whose order depends on its row alone: what else is in the batch, how
// tokens were cut into calls and what is shared change no bit.
#pragma once
#include <cstdint>

namespace burnish {

enum class Kind : int32_t { kFloat32 = 0, kBfloat16 = 1, kInt8 = 2 };

constexpr int64_t kColumns = 16;
constexpr int64_t kBlockTokens = 32;
constexpr int64_t kChunkTokens = 256;  // the softmax is rescaled once in so many tokens
constexpr int64_t kRowBlock = 96;      // rows of one product; buffers of rows are padded to it
constexpr int64_t kMostHeads = 48;     // query heads of one attention job
constexpr int64_t kMostWidth = 256;    // of a head

// out[p][r][c] (+)= sum over k of a[r][k] * panel_p[k][c], where the depth of a panel lies in segments.
struct Multiply {
  Kind kind;
  bool a_is_bf16;
  const void* a;
  int64_t a_stride;  // in elements
  int64_t num_rows;
  const char* const* segments;
  int64_t num_segments, pairs, last_pairs;  // pairs of depths in a segment, and in the last one
  int64_t panel_bytes, num_panels;
  float* out;
  int64_t out_stride, out_panel;  // in elements
  bool resume;                    // go on from what is in out
  bool in_chains;                 // add up sums over 64 depths each: a long chain alone would lose digits
};

enum class Then : int32_t { kStore = 0, kAdd = 1, kGate = 2 };

// What happens to a finished product [num_panels][kRowBlock][16].
struct Finish {
  Then then;
  const float* product;
  int64_t num_rows, num_panels;
  const float* scales;  // a column; null if none
  const float* bias;    // a column; null if none
  const float* added;   // [rows][added_stride]; null if none
  int64_t added_stride;
  void* out;            // float32 [rows][stride]; for kGate activations, half as wide
  int64_t out_stride;
  bool out_is_bf16;
};

struct Query {
  const void* heads;  // [repeats][width], scaled
  const char* const* blocks;
  int64_t first, end;  // the tokens that it sees
  void* out;           // [repeats][width]
};

// One key-value head for queries that share their first `num_common` blocks.
struct Attention {
  Kind kind;
  bool heads_are_bf16, out_is_bf16;
  int64_t repeats, width, offset;  // bytes from a block's start to this layer and head
  int64_t num_queries, num_common;
  const Query* queries;
};

struct Kernels {
  const char* name;
  bool takes_bf16;  // activations for bfloat16 weights are rounded to bfloat16
  void (*multiply)(const Multiply&);
  void (*finish)(const Finish&);
  void (*attend)(const Attention&);
  void (*normalize)(const float* x, const float* weight, float eps, int64_t width, void* out, bool out_is_bf16);
  void (*convert)(const float* x, int64_t count, void* out, bool out_is_bf16);
  void (*rotate)(float* head, const float* cosines, const float* sines, int64_t width);
  // Largest of x, and the sum of exp((x - largest) * inverse_temperature).
  void (*summarize)(const float* x, int64_t count, float inverse_temperature, float* largest, float* sum);
  void (*exponentials)(const float* x, int64_t count, float largest, float inverse_temperature, float* out);
};

constexpr int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
constexpr int64_t size_of(Kind kind) { return kind == Kind::kFloat32 ? 4 : kind == Kind::kBfloat16 ? 2 : 1; }
constexpr int64_t head_bytes(Kind kind, int64_t width) {
  return 2 * width * kBlockTokens * size_of(kind) + (kind == Kind::kInt8 ? 2 * kBlockTokens * 4 : 0);
}

}  // namespace burnish
