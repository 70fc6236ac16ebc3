// Attention of one key-value head: the queries that share a prefix meet its keys together.
//
// The softmax goes through the tokens in chunks of 256, counted from the sequence's start, and is rescaled between
// them (online softmax, https://arxiv.org/abs/1805.02867), so that a row's sums do not depend on its neighbours.
#pragma once
#include "kernels.hpp"
#include "vectors.hpp"

namespace {

using burnish::Attention;
using burnish::Kind;
using burnish::kBlockTokens;
using burnish::kChunkTokens;
using burnish::kMostHeads;
using burnish::kMostWidth;
using burnish::Query;

constexpr int64_t kChunkBlocks = kChunkTokens / kBlockTokens;
constexpr int64_t kHeadRows = kMostHeads + 16;  // tiles read and write 16 rows

struct AttentionRows {
  alignas(64) float heads[kHeadRows * kMostWidth];  // or bfloat16
  alignas(64) float scores[kHeadRows * kChunkTokens];
  alignas(64) uint16_t weights[kHeadRows * kChunkTokens];  // where products take bfloat16
  alignas(64) float sums[kHeadRows * kMostWidth];
  float largest[kHeadRows], total[kHeadRows];
};

// Queries [from, to) and the blocks [begin, end) that they all read.
struct Stretch {
  int64_t from, to, begin, end;
};

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// Call `run` for each stretch of one chunk: what all share, then what each has alone, in rising order.
template <class Run>
inline void for_stretches(const Attention& job, int64_t chunk, const Run& run) {
  const int64_t begin = chunk * kChunkBlocks, end = begin + kChunkBlocks;
  const int64_t shared = least(end, job.num_common);
  if (begin < shared) run(Stretch{0, job.num_queries, begin, shared});
  for (int64_t i = 0; i < job.num_queries; i++) {
    const int64_t blocks = (job.queries[i].end + kBlockTokens - 1) / kBlockTokens;
    const Stretch own{i, i + 1, most(begin, job.num_common), least(end, blocks)};
    if (own.begin < own.end) run(own);
  }
}

inline void gather_heads(const Attention& job, AttentionRows& rows) {
  const int64_t bytes = job.repeats * job.width * (job.heads_are_bf16 ? 2 : 4);
  for (int64_t i = 0; i < job.num_queries; i++)
    __builtin_memcpy(reinterpret_cast<char*>(rows.heads) + i * bytes, job.queries[i].heads, bytes);
  for (int64_t r = 0; r < job.num_queries * job.repeats; r++) {
    rows.largest[r] = -__builtin_inff();
    rows.total[r] = 0;
  }
  __builtin_memset(rows.sums, 0, job.num_queries * job.repeats * job.width * 4);
}

inline Multiply head_product(const Attention& job, const Stretch& at) {
  Multiply m{};
  m.kind = job.kind;
  m.a_is_bf16 = job.heads_are_bf16;
  m.num_rows = (at.to - at.from) * job.repeats;
  m.out_panel = burnish::kColumns;
  return m;
}

inline const float* token_scales(const Attention& job, const char* block, bool of_values) {
  return reinterpret_cast<const float*>(block + 2 * job.width * kBlockTokens) + (of_values ? kBlockTokens : 0);
}

inline void scale_columns(float* row, const float* scales) {
  for (int64_t t = 0; t < kBlockTokens; t += kLanes) store(row + t, load<Floats>(row + t) * load<Floats>(scales + t));
}

// Ask for memory that is needed soon; it comes while something else is computed.
inline void fetch(const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i, 0, 2);
}

inline void score(const Attention& job, AttentionRows& rows, int64_t chunk, const Stretch& at) {
  Multiply m = head_product(job, at);
  const int64_t row = at.from * job.repeats, size = job.heads_are_bf16 ? 2 : 4;
  m.a = reinterpret_cast<const char*>(rows.heads) + row * job.width * size;
  m.a_stride = job.width;
  m.num_segments = 1;
  m.last_pairs = job.width / 2;
  m.num_panels = kBlockTokens / burnish::kColumns;
  m.panel_bytes = job.width * burnish::kColumns * burnish::size_of(job.kind);
  m.out_stride = kChunkTokens;
  const char* const* blocks = job.queries[at.from].blocks;
  for (int64_t b = at.begin; b < at.end; b++) {
    const char* block = blocks[b] + job.offset;
    const int64_t half = job.width * kBlockTokens * burnish::size_of(job.kind);
    if (b + 1 < at.end) fetch(blocks[b + 1] + job.offset, half);  // the next keys, and the values of these
    fetch(block + half, half);
    m.segments = &block;
    m.out = rows.scores + row * kChunkTokens + (b - chunk * kChunkBlocks) * kBlockTokens;
    multiply(m);
    if (job.kind == Kind::kInt8)
      for (int64_t r = 0; r < m.num_rows; r++) scale_columns(m.out + r * kChunkTokens, token_scales(job, block, false));
  }
}

// Turn one row's scores into weights; returns by how much what was summed before must shrink.
inline float weigh(float* scores, int64_t from, int64_t to, float& largest_so_far, float& total) {
  const int64_t padded_to = burnish::padded(to, kBlockTokens);
  for (int64_t t = 0; t < from; t++) scores[t] = -__builtin_inff();
  for (int64_t t = to; t < padded_to; t++) scores[t] = -__builtin_inff();
  Floats most_V = splat(largest_so_far);
  for (int64_t t = 0; t < padded_to; t += kLanes) most_V = larger(load<Floats>(scores + t), most_V);
  const float new_largest = largest(most_V);
  Floats sum_V{};
  for (int64_t t = 0; t < padded_to; t += kLanes) {
    Floats weights_V = exponential(load<Floats>(scores + t) - splat(new_largest));
    store(scores + t, weights_V);
    sum_V += weights_V;
  }
  for (int64_t t = padded_to; t < kChunkTokens; t++) scores[t] = 0;
  const float shrink = total > 0 ? exponential(splat(largest_so_far - new_largest))[0] : 1;
  total = total * shrink + sum(sum_V);
  largest_so_far = new_largest;
  return shrink;
}

inline void finish_weights(const Attention& job, AttentionRows& rows, int64_t row, const Query& query, int64_t chunk) {
  float* weights = rows.scores + row * kChunkTokens;
  const int64_t blocks = least((query.end + kBlockTokens - 1) / kBlockTokens - chunk * kChunkBlocks, kChunkBlocks);
  if (job.kind == Kind::kInt8)
    for (int64_t b = 0; b < blocks; b++)
      scale_columns(weights + b * kBlockTokens,
                    token_scales(job, query.blocks[chunk * kChunkBlocks + b] + job.offset, true));
  if (job.heads_are_bf16)
    for (int64_t t = 0; t < kChunkTokens; t += kLanes)
      store_row(rows.weights + row * kChunkTokens, t, load<Floats>(weights + t), true);
}

inline void soften(const Attention& job, AttentionRows& rows, int64_t chunk) {
  const int64_t start = chunk * kChunkTokens;
  for (int64_t i = 0; i < job.num_queries; i++) {
    const Query& query = job.queries[i];
    const int64_t from = most(query.first - start, 0), to = least(query.end - start, kChunkTokens);
    for (int64_t row = i * job.repeats; row < (i + 1) * job.repeats; row++) {
      if (from >= to) {
        __builtin_memset(rows.scores + row * kChunkTokens, 0, kChunkTokens * 4);
        __builtin_memset(rows.weights + row * kChunkTokens, 0, kChunkTokens * 2);
        continue;
      }
      const float shrink =
          weigh(rows.scores + row * kChunkTokens, from, to, rows.largest[row], rows.total[row]);
      float* sums = rows.sums + row * job.width;
      if (shrink != 1)
        for (int64_t d = 0; d < job.width; d++) sums[d] *= shrink;
      finish_weights(job, rows, row, query, chunk);
    }
  }
}

inline void mix(const Attention& job, AttentionRows& rows, int64_t chunk, const Stretch& at) {
  Multiply m = head_product(job, at);
  const int64_t row = at.from * job.repeats, token = (at.begin - chunk * kChunkBlocks) * kBlockTokens;
  const int64_t place = row * kChunkTokens + token;
  m.a = job.heads_are_bf16 ? static_cast<const void*>(rows.weights + place) : rows.scores + place;
  m.a_stride = kChunkTokens;
  const char* values[kChunkBlocks];
  const int64_t keys_bytes = job.width * kBlockTokens * burnish::size_of(job.kind);
  for (int64_t b = at.begin; b < at.end; b++)
    values[b - at.begin] = job.queries[at.from].blocks[b] + job.offset + keys_bytes;
  m.segments = values;
  m.num_segments = at.end - at.begin;
  m.pairs = m.last_pairs = kBlockTokens / 2;
  m.num_panels = job.width / burnish::kColumns;
  m.panel_bytes = kBlockTokens * burnish::kColumns * burnish::size_of(job.kind);
  m.out = rows.sums + row * job.width;
  m.out_stride = job.width;
  m.resume = true;
  multiply(m);
}

inline void attend(const Attention& job) {
  AttentionRows rows;
  gather_heads(job, rows);
  int64_t first = job.queries[0].first, end = 0;
  for (int64_t i = 0; i < job.num_queries; i++) {
    first = least(first, job.queries[i].first);
    end = most(end, job.queries[i].end);
  }
  for (int64_t chunk = first / kChunkTokens; chunk * kChunkTokens < end; chunk++) {
    for_stretches(job, chunk, [&](const Stretch& at) { score(job, rows, chunk, at); });
    soften(job, rows, chunk);
    for_stretches(job, chunk, [&](const Stretch& at) { mix(job, rows, chunk, at); });
  }
  for (int64_t r = 0; r < job.num_queries * job.repeats; r++) {
    const Floats scale = splat(1 / rows.total[r]);
    const Query& query = job.queries[r / job.repeats];
    char* out = static_cast<char*>(query.out) + (r % job.repeats) * job.width * (job.out_is_bf16 ? 2 : 4);
    int64_t d = 0;
    for (; d + kLanes <= job.width; d += kLanes)
      store_row(out, d, load<Floats>(rows.sums + r * job.width + d) * scale, job.out_is_bf16);
  }
}

}  // namespace
