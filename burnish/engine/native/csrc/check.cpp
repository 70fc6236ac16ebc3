// A tiny random model at one level against plain loops in double precision: run before a level is trusted.
//
// The loops know no blocks, panels, chunks or threads; they read the weights as given. The shape is chosen so that
// every kernel's whole tiles and rests are used.
#include <cmath>
#include <cstring>
#include <vector>

#include "model.hpp"

namespace burnish {
namespace {

constexpr int64_t kTokens = 301;  // more than a chunk of the softmax, and no multiple of a block

using Values = std::vector<double>;

struct Raw {
  std::vector<uint16_t> bf16;
  std::vector<float> f32;
  Values exact;
};

struct RawLayer {
  Raw query, key, value, output, gate, up, down;
  std::vector<float> attention_norm, feed_norm, query_norm, key_norm;
};

struct Case {
  Kind weights, layers, cache;
  double tolerance;  // of hidden states, which are of size 1
};

class Numbers {
 public:
  double next() {  // Knuth's MMIX generator, TAOCP volume 2, 3.3.4; its upper bits
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<double>(state_ >> 40) / (1 << 23) - 1;
  }
  Raw matrix(int64_t rows, int64_t columns, Kind kind, double size) {
    Raw raw;
    for (int64_t i = 0; i < rows * columns; i++) {
      const float x = static_cast<float>(next() * size);
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      if (kind == Kind::kBfloat16) bits &= 0xffff0000u;
      float kept;
      std::memcpy(&kept, &bits, 4);
      raw.bf16.push_back(static_cast<uint16_t>(bits >> 16));
      raw.f32.push_back(kept);
      raw.exact.push_back(kept);
    }
    return raw;
  }
  std::vector<float> norm(int64_t count) {
    std::vector<float> weights;
    for (int64_t i = 0; i < count; i++) weights.push_back(static_cast<float>(1 + 0.3 * next()));
    return weights;
  }

 private:
  uint64_t state_ = 42;
};

Shape shape_of(const Case& which) {
  Shape s{};
  s.num_layers = 2;
  s.width = 80;
  s.num_heads = 6;
  s.num_kv_heads = 2;
  s.head_width = 32;
  s.inner_width = 336;
  s.vocabulary = 203;
  s.num_blocks = 24;
  s.weights_kind = static_cast<int32_t>(which.weights);
  s.layers_kind = static_cast<int32_t>(which.layers);
  s.cache_kind = static_cast<int32_t>(which.cache);
  s.eps = 1e-5f;
  s.attention_scale = 1 / std::sqrt(32.f);
  s.rope_scale = 1;
  return s;
}

struct Given {
  Shape shape;
  std::vector<RawLayer> layers;
  Raw embedding;
  std::vector<float> last_norm, inverse_frequencies;
};

Given make(const Case& which) {
  Given g{shape_of(which), {}, {}, {}, {}};
  const Shape& s = g.shape;
  Numbers numbers;
  const int64_t q = s.num_heads * s.head_width, kv = s.num_kv_heads * s.head_width;
  auto matrix = [&](int64_t rows, int64_t columns) { return numbers.matrix(rows, columns, which.weights, 1.7 / std::sqrt(columns)); };
  for (int64_t layer = 0; layer < s.num_layers; layer++)
    g.layers.push_back({matrix(q, s.width), matrix(kv, s.width), matrix(kv, s.width), matrix(s.width, q),
                        matrix(s.inner_width, s.width), matrix(s.inner_width, s.width), matrix(s.width, s.inner_width),
                        numbers.norm(s.width), numbers.norm(s.width), numbers.norm(s.head_width),
                        numbers.norm(s.head_width)});
  g.embedding = numbers.matrix(s.vocabulary, s.width, which.weights, 1);
  g.last_norm = numbers.norm(s.width);
  for (int64_t i = 0; i < s.head_width / 2; i++)
    g.inverse_frequencies.push_back(static_cast<float>(std::pow(10000., -2. * i / s.head_width)));
  return g;
}

Values times(const Values& matrix, const Values& x) {
  Values y(matrix.size() / x.size(), 0);
  for (size_t r = 0; r < y.size(); r++)
    for (size_t k = 0; k < x.size(); k++) y[r] += matrix[r * x.size() + k] * x[k];
  return y;
}

Values normed(const Values& x, const std::vector<float>& weight, double eps) {
  double squares = 0;
  for (double value : x) squares += value * value;
  Values y;
  for (size_t i = 0; i < x.size(); i++) y.push_back(x[i] * weight[i] / std::sqrt(squares / x.size() + eps));
  return y;
}

Values turned(const Values& x, int64_t head, const std::vector<float>& norm, const Given& g, int64_t position) {
  const int64_t width = g.shape.head_width, half = width / 2;
  const Values y = normed({x.begin() + head * width, x.begin() + (head + 1) * width}, norm, g.shape.eps);
  Values out(width);
  for (int64_t i = 0; i < half; i++) {
    const double angle = position * static_cast<double>(g.inverse_frequencies[i]);
    out[i] = y[i] * std::cos(angle) - y[i + half] * std::sin(angle);
    out[i + half] = y[i + half] * std::cos(angle) + y[i] * std::sin(angle);
  }
  return out;
}

// Token `t` of one layer; keys and values of all tokens so far are kept by head.
Values attended(const Given& g, const RawLayer& layer, const Values& x, int64_t t, std::vector<std::vector<Values>>& keys,
                std::vector<std::vector<Values>>& values) {
  const Shape& s = g.shape;
  const Values q = times(layer.query.exact, x), k = times(layer.key.exact, x), v = times(layer.value.exact, x);
  for (int64_t h = 0; h < s.num_kv_heads; h++) {
    keys[h].push_back(turned(k, h, layer.key_norm, g, t));
    values[h].push_back({v.begin() + h * s.head_width, v.begin() + (h + 1) * s.head_width});
  }
  Values mixed(s.num_heads * s.head_width, 0);
  for (int64_t h = 0; h < s.num_heads; h++) {
    const Values query = turned(q, h, layer.query_norm, g, t);
    const int64_t kv = h * s.num_kv_heads / s.num_heads;
    Values weights;
    double total = 0;
    for (int64_t u = 0; u <= t; u++) {
      double score = 0;
      for (int64_t d = 0; d < s.head_width; d++) score += query[d] * keys[kv][u][d];
      weights.push_back(std::exp(score * s.attention_scale));
      total += weights.back();
    }
    for (int64_t u = 0; u <= t; u++)
      for (int64_t d = 0; d < s.head_width; d++)
        mixed[h * s.head_width + d] += weights[u] / total * values[kv][u][d];
  }
  return times(layer.output.exact, mixed);
}

Values fed_forward(const RawLayer& layer, const Values& x) {
  Values gate = times(layer.gate.exact, x);
  const Values up = times(layer.up.exact, x);
  for (size_t i = 0; i < gate.size(); i++) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  return times(layer.down.exact, gate);
}

std::vector<Values> expected(const Given& g, const std::vector<int64_t>& token_ids) {
  const Shape& s = g.shape;
  std::vector<std::vector<std::vector<Values>>> keys(s.num_layers, std::vector<std::vector<Values>>(s.num_kv_heads));
  auto values = keys;
  std::vector<Values> out;
  for (size_t t = 0; t < token_ids.size(); t++) {
    const auto row = g.embedding.exact.begin() + token_ids[t] * s.width;
    Values x(row, row + s.width);
    for (int64_t l = 0; l < s.num_layers; l++) {
      const RawLayer& layer = g.layers[l];
      const Values mixed = attended(g, layer, normed(x, layer.attention_norm, s.eps), t, keys[l], values[l]);
      for (int64_t i = 0; i < s.width; i++) x[i] += mixed[i];
      const Values fed = fed_forward(layer, normed(x, layer.feed_norm, s.eps));
      for (int64_t i = 0; i < s.width; i++) x[i] += fed[i];
    }
    out.push_back(normed(x, g.last_norm, s.eps));
  }
  return out;
}

Linear linear(const Raw& raw, int64_t columns, Kind kind) {
  const bool is_bf16 = kind == Kind::kBfloat16;
  const void* weight = is_bf16 ? static_cast<const void*>(raw.bf16.data()) : raw.f32.data();
  return {weight, nullptr, nullptr, nullptr, static_cast<int64_t>(raw.f32.size()) / columns, columns, 0, 0, is_bf16};
}

burnish_model* opened(const Given& g, const Case& which, const char* level) {
  const Shape& s = g.shape;
  const std::vector<int64_t> windows(s.num_layers, 0);
  burnish_model* model = burnish_open(&s, g.inverse_frequencies.data(), windows.data(), level, 1);
  if (model == nullptr) return nullptr;
  for (int64_t l = 0; l < s.num_layers; l++) {
    const RawLayer& layer = g.layers[l];
    auto part = [&](const Raw& raw, int64_t columns) { return linear(raw, columns, which.weights); };
    const Linear qkv[] = {part(layer.query, s.width), part(layer.key, s.width), part(layer.value, s.width)};
    const Linear output = part(layer.output, s.num_heads * s.head_width), down = part(layer.down, s.inner_width);
    const Linear gate_up[] = {part(layer.gate, s.width), part(layer.up, s.width)};
    burnish_pack(model, l, 0, qkv, 3);
    burnish_pack(model, l, 1, &output, 1);
    burnish_pack(model, l, 2, gate_up, 2);
    burnish_pack(model, l, 3, &down, 1);
    const std::vector<float>* norms[] = {&layer.attention_norm, &layer.feed_norm, &layer.query_norm, &layer.key_norm};
    for (int which_norm = 0; which_norm < 4; which_norm++)
      burnish_norm(model, l, which_norm, norms[which_norm]->data(), static_cast<int64_t>(norms[which_norm]->size()));
  }
  const Linear head = linear(g.embedding, s.width, which.weights);
  burnish_pack(model, 0, 4, &head, 1);
  burnish_norm(model, 0, 4, g.last_norm.data(), s.width);
  burnish_embedding(model, head.weight, head.is_bf16);
  return model;
}

double gap(const std::vector<Values>& truth, const std::vector<float>& got, int64_t width) {
  double most = 0;
  for (size_t t = 0; t < truth.size(); t++)
    for (int64_t d = 0; d < width; d++) {
      const double off = std::fabs(truth[t][d] - got[t * width + d]);
      most = off <= most ? most : off;  // a NaN counts
    }
  return most;
}

// The log-probabilities of given tokens, and one token at a time where many were fed at once, bit by bit.
bool agrees(burnish_model* model, const Given& g, const Case& which, const std::vector<int64_t>& token_ids) {
  const Shape& s = g.shape;
  const int64_t count = static_cast<int64_t>(token_ids.size()), branch = burnish_branch(model, 0);
  std::vector<float> hidden(count * s.width), again(s.width);
  if (burnish_feed(model, 1, &branch, &count, token_ids.data(), 1, hidden.data()) != 0) return false;
  const std::vector<Values> truth = expected(g, token_ids);
  if (!(gap(truth, hidden, s.width) <= which.tolerance)) return false;
  const int64_t fork = burnish_fork(model, branch, count - 1), one = 1;
  if (burnish_feed(model, 1, &fork, &one, &token_ids[count - 1], 0, again.data()) != 0) return false;
  if (std::memcmp(again.data(), hidden.data() + (count - 1) * s.width, 4 * s.width) != 0) return false;
  const std::vector<float> ones(count, 1.f);
  std::vector<float> logprobs(count);
  if (burnish_score(model, count, hidden.data(), ones.data(), token_ids.data(), logprobs.data()) != 0) return false;
  for (int64_t t = 0; t < count; t++) {
    const Values logits = times(g.embedding.exact, truth[t]);
    double mass = 0;
    for (double logit : logits) mass += std::exp(logit);
    const double off = std::fabs(logits[token_ids[t]] - std::log(mass) - logprobs[t]);
    if (!(off <= 10 * which.tolerance)) return false;
  }
  return true;
}

bool passes(const Case& which, const char* level) {
  const Given g = make(which);
  std::vector<int64_t> token_ids;
  for (int64_t t = 0; t < kTokens; t++) token_ids.push_back(t * 7919 % g.shape.vocabulary);
  burnish_model* model = opened(g, which, level);
  if (model == nullptr) return false;
  const bool good = agrees(model, g, which, token_ids);
  burnish_close(model);
  return good;
}

}  // namespace
}  // namespace burnish

int burnish_check(const char* level) {
  using burnish::Kind;
  constexpr burnish::Case kCases[] = {
      {Kind::kFloat32, Kind::kFloat32, Kind::kFloat32, 2e-5},
      {Kind::kBfloat16, Kind::kBfloat16, Kind::kBfloat16, 0.04},
      {Kind::kFloat32, Kind::kInt8, Kind::kInt8, 0.1},
      {Kind::kBfloat16, Kind::kInt8, Kind::kInt8, 0.1},
  };
  for (const burnish::Case& which : kCases)
    if (!burnish::passes(which, level)) return 1;
  return 0;
}
