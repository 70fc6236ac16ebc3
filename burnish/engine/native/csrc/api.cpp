// The plain C functions of api.h.
#include "api.h"

#include <cstring>
#include <string>

#include "model.hpp"

using burnish::Kind;

namespace {

thread_local std::string last_error;

template <class Act>
int guarded(const Act& act) {
  try {
    act();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return -1;
  }
}

const burnish::Branch& open_branch(burnish_model& model, int64_t id) {
  const burnish::Branch* found = model.branches->find(id);
  if (found == nullptr) throw std::invalid_argument("branch " + std::to_string(id) + " is not open");
  return *found;
}

burnish::Matrix& matrix_of(burnish_model& model, int64_t layer, int which) {
  burnish::Layer& l = model.layers[layer];
  burnish::Matrix* matrices[] = {&l.qkv, &l.output, &l.gate_up, &l.down, &model.head};
  return *matrices[which];
}

std::vector<float>& norm_of(burnish_model& model, int64_t layer, int which) {
  burnish::Layer& l = model.layers[layer];
  std::vector<float>* norms[] = {&l.attention_norm, &l.feed_norm, &l.query_norm, &l.key_norm, &model.last_norm};
  return *norms[which];
}

burnish_model* opened(const Shape& shape, const float* inverse_frequencies, const int64_t* windows,
                      const char* level, int num_threads) {
  auto model = std::make_unique<burnish_model>();
  model->shape = shape;
  model->kernels = burnish::kernels_of(level);
  model->pool = std::make_unique<burnish::Pool>(num_threads);
  model->layers.resize(shape.num_layers);
  for (int64_t i = 0; i < shape.num_layers; i++) model->layers[i].window = windows[i];
  model->inverse_frequencies.assign(inverse_frequencies, inverse_frequencies + shape.head_width / 2);
  model->branches = std::make_unique<burnish::Branches>(shape.num_blocks, burnish_block_bytes(&shape));
  return model.release();
}

}  // namespace

const char* burnish_error() { return last_error.c_str(); }

const char* burnish_levels() {
  static const std::string text = burnish::levels();
  return text.c_str();
}

burnish_model* burnish_open(const Shape* shape, const float* inverse_frequencies, const int64_t* windows,
                            const char* level, int num_threads) {
  burnish_model* model = nullptr;
  guarded([&] { model = opened(*shape, inverse_frequencies, windows, level, num_threads); });
  return model;
}

void burnish_close(burnish_model* model) { delete model; }

void burnish_use_threads(burnish_model* model, int num_threads) {
  if (model->pool->num_threads() != num_threads) model->pool = std::make_unique<burnish::Pool>(num_threads);
}

int64_t burnish_bytes(burnish_model* model) {
  auto bytes = [](const burnish::Matrix& m) {
    return static_cast<int64_t>(m.panels.bytes() + m.scales.bytes() + m.bias.bytes());
  };
  int64_t total = bytes(model->head);
  for (const burnish::Layer& l : model->layers) total += bytes(l.qkv) + bytes(l.output) + bytes(l.gate_up) + bytes(l.down);
  return total;
}

int burnish_pack(burnish_model* model, int64_t layer, int which, const Linear* parts, int64_t num_parts) {
  return guarded([&] {
    const Kind kind = static_cast<Kind>(which == 4 ? model->shape.weights_kind : model->shape.layers_kind);
    burnish::pack(*model->pool, parts, num_parts, which == 2, kind, matrix_of(*model, layer, which));
  });
}

int burnish_norm(burnish_model* model, int64_t layer, int which, const float* weight, int64_t count) {
  return guarded([&] { norm_of(*model, layer, which).assign(weight, weight + count); });
}

int burnish_embedding(burnish_model* model, const void* rows, int is_bf16) {
  model->embedding = rows;
  model->embedding_is_bf16 = is_bf16 != 0;
  return 0;
}

int burnish_adapter(burnish_model* model, int64_t adapter, int64_t layer, int which, const Linear* down,
                    const Linear* ups, int64_t num_parts) {
  return guarded([&] {
    burnish::Adapter& all = model->adapters[adapter];
    all.resize(model->shape.num_layers * burnish::kMatrices);
    burnish::LowRank& low = all[layer * burnish::kMatrices + which];
    low = {};
    if (num_parts == 0) return;
    const Kind kind = static_cast<Kind>(model->shape.weights_kind);
    burnish::pack(*model->pool, down, 1, false, kind, low.down);
    burnish::pack(*model->pool, ups, num_parts, which == 2, kind, low.up);
  });
}

int64_t burnish_branch(burnish_model* model, int64_t adapter) {
  int64_t branch = -1;
  guarded([&] {
    if (adapter != 0 && model->adapters.count(adapter) == 0)
      throw std::invalid_argument("there is no adapter " + std::to_string(adapter));
    branch = model->branches->open(adapter);
  });
  return branch;
}

int64_t burnish_fork(burnish_model* model, int64_t parent, int64_t length) {
  int64_t child = -1;
  guarded([&] {
    const burnish::Branch& from = open_branch(*model, parent);
    if (length < 0 || length > from.length)
      throw std::invalid_argument("branch " + std::to_string(parent) + " holds " + std::to_string(from.length) +
                                  " tokens; a fork asked for the first " + std::to_string(length));
    child = model->branches->fork(parent, length);
  });
  return child;
}

int burnish_drop(burnish_model* model, int64_t branch) {
  return guarded([&] {
    open_branch(*model, branch);
    model->branches->drop(branch);
  });
}

int64_t burnish_length(burnish_model* model, int64_t branch) {
  int64_t length = -1;
  guarded([&] { length = open_branch(*model, branch).length; });
  return length;
}

int burnish_fits(burnish_model* model, int64_t num_works, const int64_t* branches, const int64_t* counts) {
  int fits = 0;
  const int failed = guarded([&] {
    fits = burnish::blocks_needed(*model, num_works, branches, counts) <= model->branches->num_free() ? 1 : 0;
  });
  return failed != 0 ? -1 : fits;
}

int64_t burnish_block_bytes(const Shape* shape) {
  return shape->num_layers * shape->num_kv_heads *
         burnish::head_bytes(static_cast<Kind>(shape->cache_kind), shape->head_width);
}

int burnish_feed(burnish_model* model, int64_t num_works, const int64_t* branches, const int64_t* counts,
                 const int64_t* token_ids, int every_token, float* hidden) {
  return guarded([&] { burnish::feed(*model, num_works, branches, counts, token_ids, every_token != 0, hidden); });
}

int burnish_logits(burnish_model* model, int64_t num_rows, const float* hidden, float* logits) {
  return guarded([&] {
    burnish::run_head(*model, {burnish::Ask::kLogits, num_rows, hidden, nullptr, nullptr, nullptr, logits});
  });
}

int burnish_draw(burnish_model* model, int64_t num_rows, const float* hidden, const float* temperatures,
                 const float* uniforms, int64_t* token_ids, float* logprobs) {
  return guarded([&] {
    burnish::run_head(*model, {burnish::Ask::kDraw, num_rows, hidden, temperatures, uniforms, token_ids, logprobs});
  });
}

int burnish_score(burnish_model* model, int64_t num_rows, const float* hidden, const float* temperatures,
                  const int64_t* token_ids, float* logprobs) {
  return guarded([&] {
    for (int64_t i = 0; i < num_rows; i++)
      if (token_ids[i] < 0 || token_ids[i] >= model->shape.vocabulary)
        throw std::invalid_argument("token id " + std::to_string(token_ids[i]) + " is outside the vocabulary of " +
                                    std::to_string(model->shape.vocabulary));
    burnish::run_head(*model, {burnish::Ask::kScore, num_rows, hidden, temperatures, nullptr,
                               const_cast<int64_t*>(token_ids), logprobs});
  });
}
