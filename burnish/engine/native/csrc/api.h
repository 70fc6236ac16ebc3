// The library's interface: plain C, called through ctypes. library.py mirrors these structures.
//
// Functions that can fail return 0, or -1 with a sentence in `burnish_error()`. One call at a time on one model.
#pragma once
#include <stdint.h>

#pragma GCC visibility push(default)
extern "C" {

struct Shape {
  int64_t num_layers, width, num_heads, num_kv_heads, head_width, inner_width, vocabulary, num_blocks;
  int32_t weights_kind, layers_kind, cache_kind;  // 0 float32, 1 bfloat16, 2 int8; `weights_kind` is of the head
  float eps, attention_scale, rope_scale;
};

// One linear layer: float32 or bfloat16 [rows][columns] in row-major order, plus scale * up . down (float32).
struct Linear {
  const void* weight;
  const void* bias;
  const float* down;
  const float* up;
  int64_t rows, columns, rank;
  float scale;
  int32_t is_bf16;
};

struct burnish_model;

const char* burnish_error();
// The levels that were compiled and that this processor runs, the best first, separated by spaces.
const char* burnish_levels();
// Run a tiny model at one level against plain loops; 0 if they agree.
int burnish_check(const char* level);

burnish_model* burnish_open(const Shape* shape, const float* inverse_frequencies, const int64_t* windows,
                            const char* level, int num_threads);
void burnish_close(burnish_model*);
void burnish_use_threads(burnish_model*, int num_threads);
int64_t burnish_bytes(burnish_model*);

// which: 0 queries, keys, values; 1 attention's output; 2 gate and up (interleaved); 3 down; 4 head (layer 0).
int burnish_pack(burnish_model*, int64_t layer, int which, const Linear* parts, int64_t num_parts);
// which: 0 before attention; 1 before the feed-forward; 2 queries; 3 keys; 4 after the last layer (layer 0).
int burnish_norm(burnish_model*, int64_t layer, int which, const float* weight, int64_t count);
int burnish_embedding(burnish_model*, const void* rows, int is_bf16);

// What an adapter (1, 2, ...) adds to one matrix of a layer: `down` all its rows, `ups` the parts of the matrix, scaled.
// Without parts it adds nothing; what it added before is forgotten.
int burnish_adapter(burnish_model*, int64_t adapter, int64_t layer, int which, const Linear* down, const Linear* ups,
                    int64_t num_parts);

// `adapter` 0 is none; a fork has its parent's.
int64_t burnish_branch(burnish_model*, int64_t adapter);
int64_t burnish_fork(burnish_model*, int64_t parent, int64_t length);
int burnish_drop(burnish_model*, int64_t branch);
int64_t burnish_length(burnish_model*, int64_t branch);
// 1 if there is room to feed these now, 0 if not.
int burnish_fits(burnish_model*, int64_t num_works, const int64_t* branches, const int64_t* counts);
int64_t burnish_block_bytes(const Shape* shape);

int burnish_feed(burnish_model*, int64_t num_works, const int64_t* branches, const int64_t* counts,
                 const int64_t* token_ids, int every_token, float* hidden);
int burnish_logits(burnish_model*, int64_t num_rows, const float* hidden, float* logits);
int burnish_draw(burnish_model*, int64_t num_rows, const float* hidden, const float* temperatures,
                 const float* uniforms, int64_t* token_ids, float* logprobs);
int burnish_score(burnish_model*, int64_t num_rows, const float* hidden, const float* temperatures,
                  const int64_t* token_ids, float* logprobs);
}
#pragma GCC visibility pop
