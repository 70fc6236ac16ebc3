// Tokens through the layers: chunks of rows, each layer's keys and values stored before anyone attends to them.
#include <cmath>
#include <cstring>
#include <map>

#include "model.hpp"

namespace burnish {
namespace {

constexpr int64_t kMostRows = 480;  // rows of one pass: five row blocks

struct Row {
  const Branch* branch;
  int64_t position, token_id;
};

// Queries of one attention job, and how many blocks they share.
struct Group {
  int64_t first_row, num_rows, num_common;
};

constexpr int64_t kMostOfRun = 16;

// Neighbours that one adapter adds to.
struct Run {
  const Adapter* adapter;
  int64_t first_row, num_rows;
};

struct Pass {
  burnish_model& model;
  std::vector<Row> rows;
  std::vector<Run> runs;
  std::vector<int64_t> order;  // rows as the groups take them
  std::vector<Group> groups;
  std::map<const Branch*, std::vector<const char*>> blocks;
};

int64_t num_blocks(int64_t tokens) { return padded(tokens, kBlockTokens) / kBlockTokens; }

// The blocks of a branch that others read too: a prefix, since only forks share.
int64_t num_shared(const burnish_model& model, const Branch& branch) {
  int64_t count = 0;
  for (int64_t block : branch.blocks) {
    if (!model.branches->is_shared(block)) break;
    count++;
  }
  return count;
}

// Rows of one branch attend together, up to as many as a job holds; so do single rows with one shared prefix.
void make_groups(Pass& pass) {
  const int64_t most = std::max<int64_t>(1, kMostHeads / (pass.model.shape.num_heads / pass.model.shape.num_kv_heads));
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> singles;  // by last shared block and its place
  for (size_t i = 0; i < pass.rows.size();) {
    size_t end = i + 1;
    while (end < pass.rows.size() && pass.rows[end].branch == pass.rows[i].branch) end++;
    const Branch& branch = *pass.rows[i].branch;
    const int64_t shared = end == i + 1 ? num_shared(pass.model, branch) : 0;
    if (shared > 0) {
      singles[{branch.blocks[shared - 1], shared}].push_back(static_cast<int64_t>(i));
    } else {
      for (size_t at = i; at < end; at += most) {
        const int64_t count = std::min<int64_t>(most, static_cast<int64_t>(end - at));
        const int64_t last = pass.rows[at + count - 1].position;
        pass.groups.push_back({static_cast<int64_t>(pass.order.size()), count, num_blocks(last + 1)});
        for (int64_t j = 0; j < count; j++) pass.order.push_back(static_cast<int64_t>(at) + j);
      }
    }
    i = end;
  }
  for (const auto& [key, members] : singles)
    for (size_t at = 0; at < members.size(); at += most) {
      const int64_t count = std::min<int64_t>(most, static_cast<int64_t>(members.size() - at));
      pass.groups.push_back({static_cast<int64_t>(pass.order.size()), count, key.second});
      pass.order.insert(pass.order.end(), members.begin() + at, members.begin() + at + count);
    }
}

void make_runs(Pass& pass) {
  for (int64_t i = 0; i < static_cast<int64_t>(pass.rows.size()); i++) {
    if (pass.rows[i].branch->adapter == 0) continue;
    const Adapter* adapter = &pass.model.adapters.at(pass.rows[i].branch->adapter);
    Run* last = pass.runs.empty() ? nullptr : &pass.runs.back();
    if (last != nullptr && last->adapter == adapter && last->first_row + last->num_rows == i && last->num_rows < kMostOfRun)
      last->num_rows++;
    else
      pass.runs.push_back({adapter, i, 1});
  }
}

void find_blocks(Pass& pass) {
  for (const Row& row : pass.rows) {
    std::vector<const char*>& addresses = pass.blocks[row.branch];
    if (addresses.empty())
      for (int64_t block : row.branch->blocks) addresses.push_back(pass.model.branches->block(block));
  }
}

void embed(Pass& pass) {
  burnish_model& m = pass.model;
  const int64_t width = m.shape.width;
  for (size_t i = 0; i < pass.rows.size(); i++) {
    float* out = m.buffers.hidden.as<float>() + i * width;
    const int64_t at = pass.rows[i].token_id * width;
    if (!m.embedding_is_bf16) {
      std::memcpy(out, static_cast<const float*>(m.embedding) + at, 4 * width);
      continue;
    }
    for (int64_t d = 0; d < width; d++) {
      const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(m.embedding)[at + d]) << 16;
      std::memcpy(out + d, &bits, 4);
    }
  }
}

void find_angles(Pass& pass) {
  burnish_model& m = pass.model;
  const int64_t half = m.shape.head_width / 2;
  m.pool->run(static_cast<int64_t>(pass.rows.size()), [&](int64_t i) {
    for (int64_t d = 0; d < half; d++) {
      const float angle = static_cast<float>(pass.rows[i].position) * m.inverse_frequencies[d];
      m.buffers.cosines.as<float>()[i * half + d] = std::cos(angle) * m.shape.rope_scale;
      m.buffers.sines.as<float>()[i * half + d] = std::sin(angle) * m.shape.rope_scale;
    }
  });
}

// Write one token's key and value into its block (see kernels.hpp for the order).
void store_token(const burnish_model& m, char* head, int64_t slot, const float* key, const float* value) {
  const int64_t width = m.shape.head_width;
  const Kind kind = m.cache_kind();
  char* values = head + width * kBlockTokens * size_of(kind);
  const int64_t panel = slot / kColumns, column = slot % kColumns;
  if (kind == Kind::kFloat32) {
    float* keys = reinterpret_cast<float*>(head) + panel * width * kColumns + column;
    float* place = reinterpret_cast<float*>(values) + slot * kColumns;
    for (int64_t d = 0; d < width; d++) keys[d * kColumns] = key[d];
    for (int64_t d = 0; d < width; d++) place[d / kColumns * kBlockTokens * kColumns + d % kColumns] = value[d];
  } else if (kind == Kind::kBfloat16) {
    uint16_t* keys = reinterpret_cast<uint16_t*>(head) + panel * width * kColumns + column * 2;
    uint16_t* place = reinterpret_cast<uint16_t*>(values) + slot / 2 * kColumns * 2 + slot % 2;
    uint16_t rounded[2 * kMostWidth];
    m.kernels->convert(key, width, rounded, true);
    m.kernels->convert(value, width, rounded + width, true);
    for (int64_t d = 0; d < width; d++) keys[d / 2 * kColumns * 2 + d % 2] = rounded[d];
    for (int64_t d = 0; d < width; d++)
      place[d / kColumns * kBlockTokens * kColumns + d % kColumns * 2] = rounded[width + d];
  } else {
    float* scales = reinterpret_cast<float*>(values + width * kBlockTokens);
    const float key_scale = scale_of(key, width), value_scale = scale_of(value, width);
    scales[slot] = key_scale;
    scales[kBlockTokens + slot] = value_scale;
    int8_t* keys = reinterpret_cast<int8_t*>(head) + panel * width * kColumns + column;
    int8_t* place = reinterpret_cast<int8_t*>(values) + slot * kColumns;
    for (int64_t d = 0; d < width; d++) keys[d * kColumns] = static_cast<int8_t>(std::lrintf(key[d] / key_scale));
    for (int64_t d = 0; d < width; d++)
      place[d / kColumns * kBlockTokens * kColumns + d % kColumns] =
          static_cast<int8_t>(std::lrintf(value[d] / value_scale));
  }
}

// Turn one row's queries and keys to its position, and store its keys and values.
void place_row(Pass& pass, int64_t layer, int64_t i) {
  burnish_model& m = pass.model;
  const Shape& s = m.shape;
  const Layer& weights = m.layers[layer];
  const int64_t width = s.head_width, half = width / 2;
  float* qkv = m.buffers.qkv.as<float>() + i * m.layers[layer].qkv.num_panels * kColumns;
  const float* cosines = m.buffers.cosines.as<float>() + i * half;
  const float* sines = m.buffers.sines.as<float>() + i * half;
  for (int64_t h = 0; h < s.num_heads + s.num_kv_heads; h++) {
    float* head = qkv + h * width;
    const std::vector<float>& norm = h < s.num_heads ? weights.query_norm : weights.key_norm;
    if (!norm.empty()) m.kernels->normalize(head, norm.data(), s.eps, width, head, false);
    m.kernels->rotate(head, cosines, sines, width);
    if (h < s.num_heads)
      for (int64_t d = 0; d < width; d++) head[d] *= s.attention_scale;
  }
  const int64_t size = m.heads_are_bf16() ? 2 : 4;
  m.kernels->convert(qkv, s.num_heads * width, m.buffers.heads.as() + i * s.num_heads * width * size, m.heads_are_bf16());
  const Row& row = pass.rows[i];
  char* block = m.branches->block(row.branch->blocks[row.position / kBlockTokens]);
  for (int64_t h = 0; h < s.num_kv_heads; h++) {
    const float* key = qkv + (s.num_heads + h) * width;
    char* head = block + (layer * s.num_kv_heads + h) * head_bytes(m.cache_kind(), width);
    store_token(m, head, row.position % kBlockTokens, key, key + s.num_kv_heads * width);
  }
}

void attend_group(Pass& pass, int64_t layer, int64_t kv_head, const Group& group) {
  burnish_model& m = pass.model;
  const Shape& s = m.shape;
  const int64_t repeats = s.num_heads / s.num_kv_heads, stride = padded(s.num_heads * s.head_width, 32);
  const int64_t window = m.layers[layer].window;
  Query queries[kMostHeads];
  for (int64_t j = 0; j < group.num_rows; j++) {
    const int64_t at = group.first_row + j, i = pass.order[at], first_head = kv_head * repeats * s.head_width;
    Query& query = queries[j];
    query.heads = m.buffers.heads.as() + (i * s.num_heads * s.head_width + first_head) * (m.heads_are_bf16() ? 2 : 4);
    query.blocks = pass.blocks.at(pass.rows[i].branch).data();
    query.end = pass.rows[i].position + 1;
    query.first = window > 0 ? std::max<int64_t>(0, query.end - window) : 0;
    query.out = m.buffers.mixed.as() + (i * stride + first_head) * (m.rows_are_bf16() ? 2 : 4);
  }
  const int64_t offset = (layer * s.num_kv_heads + kv_head) * head_bytes(m.cache_kind(), s.head_width);
  m.kernels->attend({m.cache_kind(), m.heads_are_bf16(), m.rows_are_bf16(), repeats, s.head_width, offset,
                     group.num_rows, group.num_common, queries});
}

void normalize_rows(Pass& pass, const std::vector<float>& weight) {
  burnish_model& m = pass.model;
  const int64_t width = m.shape.width, stride = padded(width, 32) * (m.rows_are_bf16() ? 2 : 4);
  m.pool->run(padded(pass.rows.size(), 8) / 8, [&](int64_t part) {
    for (int64_t i = 8 * part; i < std::min<int64_t>(8 * part + 8, pass.rows.size()); i++)
      m.kernels->normalize(m.buffers.hidden.as<float>() + i * width, weight.data(), m.shape.eps, width,
                           m.buffers.rows.as() + i * stride, m.rows_are_bf16());
  });
}

void multiply_rows(const burnish_model& m, const Matrix& matrix, const char* rows, int64_t num_rows, float* out,
                   int64_t stride) {
  const char* panels = matrix.panels.as();
  Multiply job{};
  job.kind = matrix.kind;
  job.a_is_bf16 = m.rows_are_bf16();
  job.a = rows;
  job.a_stride = matrix.depth;
  job.num_rows = num_rows;
  job.segments = &panels;
  job.num_segments = 1;
  job.pairs = job.last_pairs = matrix.depth / 2;
  job.panel_bytes = matrix.panel_bytes();
  job.num_panels = matrix.num_panels;
  job.out = out;
  job.out_stride = stride;
  job.out_panel = kColumns;
  job.in_chains = true;
  m.kernels->multiply(job);
}

// What adapters add to a matrix's product with the rows, 0 where a row has none; null if no row has one.
const float* added(Pass& pass, int64_t layer, int which, const Matrix& matrix, const char* rows) {
  burnish_model& m = pass.model;
  const auto adds = [&](const Run& run) -> const LowRank& { return (*run.adapter)[layer * kMatrices + which]; };
  int64_t width = 0;
  for (const Run& run : pass.runs) width = std::max(width, adds(run).up.depth);
  if (width == 0) return nullptr;
  const int64_t columns = matrix.num_panels * kColumns, size = m.rows_are_bf16() ? 2 : 4;
  const int64_t num_rows = static_cast<int64_t>(pass.rows.size()), num_runs = static_cast<int64_t>(pass.runs.size());
  m.buffers.added.reach(num_rows * columns * 4);
  m.buffers.narrow.reach((num_runs + 1) * kMostOfRun * width * 4);  // one more, for tiles that read 16 rows
  float* out = m.buffers.added.as<float>();
  std::memset(out, 0, num_rows * columns * 4);
  m.pool->run(num_runs, [&](int64_t i) {
    const Run& run = pass.runs[i];
    const LowRank& low = adds(run);
    if (low.up.depth == 0) return;
    float* narrow = m.buffers.narrow.as<float>() + i * kMostOfRun * width;
    multiply_rows(m, low.down, rows + run.first_row * matrix.depth * size, run.num_rows, narrow, low.up.depth);
    m.kernels->convert(narrow, run.num_rows * low.up.depth, narrow, m.rows_are_bf16());
    multiply_rows(m, low.up, reinterpret_cast<const char*>(narrow), run.num_rows, out + run.first_row * columns, columns);
  });
  return out;
}

void run_layer(Pass& pass, int64_t layer) {
  burnish_model& m = pass.model;
  const auto multiply = [&](int which, const Matrix& matrix, const Memory& rows, Then then, const Memory& out,
                            int64_t stride) {
    apply(m, matrix, rows.as(), static_cast<int64_t>(pass.rows.size()), added(pass, layer, which, matrix, rows.as()),
          then, out.as(), stride);
  };
  Buffers& b = m.buffers;
  const Layer& weights = m.layers[layer];
  const int64_t num_rows = static_cast<int64_t>(pass.rows.size()), width = m.shape.width;
  normalize_rows(pass, weights.attention_norm);
  multiply(0, weights.qkv, b.rows, Then::kStore, b.qkv, weights.qkv.num_panels * kColumns);
  m.pool->run(padded(num_rows, 4) / 4, [&](int64_t part) {
    for (int64_t i = 4 * part; i < std::min(4 * part + 4, num_rows); i++) place_row(pass, layer, i);
  });
  const int64_t num_groups = static_cast<int64_t>(pass.groups.size());
  m.pool->run(num_groups * m.shape.num_kv_heads,
              [&](int64_t i) { attend_group(pass, layer, i / num_groups, pass.groups[i % num_groups]); });
  multiply(1, weights.output, b.mixed, Then::kAdd, b.hidden, width);
  normalize_rows(pass, weights.feed_norm);
  multiply(2, weights.gate_up, b.rows, Then::kGate, b.inner, weights.down.depth);
  multiply(3, weights.down, b.inner, Then::kAdd, b.hidden, width);
}

void reach(burnish_model& m, int64_t num_rows) {
  const Shape& s = m.shape;
  const int64_t rows = padded(num_rows, kRowBlock) * 4;
  Buffers& b = m.buffers;
  b.hidden.reach(rows * padded(s.width, kColumns));
  b.rows.reach(rows * padded(s.width, 32));
  b.qkv.reach(rows * m.layers[0].qkv.num_panels * kColumns);
  b.heads.reach(rows * s.num_heads * s.head_width);
  b.mixed.reach(rows * padded(s.num_heads * s.head_width, 32));
  b.inner.reach(rows * m.layers[0].down.depth);
  b.cosines.reach(rows * s.head_width / 2);
  b.sines.reach(rows * s.head_width / 2);
}

void run_pass(Pass& pass) {
  reach(pass.model, static_cast<int64_t>(pass.rows.size()));
  make_groups(pass);
  make_runs(pass);
  find_blocks(pass);
  embed(pass);
  find_angles(pass);
  for (int64_t layer = 0; layer < pass.model.shape.num_layers; layer++) run_layer(pass, layer);
}

void check_feed(burnish_model& m, int64_t num_works, const int64_t* branches, const int64_t* counts,
                const int64_t* token_ids) {
  const int64_t blocks = blocks_needed(m, num_works, branches, counts);
  if (blocks > m.branches->num_free())
    throw std::length_error("there is no room: these tokens take " + std::to_string(blocks) + " blocks, and " +
                            std::to_string(m.branches->num_free()) + " are free; ask `fits` first, or drop branches");
  int64_t total = 0;
  for (int64_t i = 0; i < num_works; i++) total += counts[i];
  for (int64_t i = 0; i < total; i++)
    if (token_ids[i] < 0 || token_ids[i] >= m.shape.vocabulary)
      throw std::invalid_argument("token id " + std::to_string(token_ids[i]) + " is outside the vocabulary of " +
                                  std::to_string(m.shape.vocabulary));
}

}  // namespace

void apply(burnish_model& model, const Matrix& matrix, const void* rows, int64_t num_rows, const float* added, Then then,
           void* out, int64_t out_stride) {
  const int64_t shares = padded(num_rows, kRowBlock) / kRowBlock;
  const int64_t fewest = num_rows < 4 ? 4 : 2;  // few rows need several panels to keep the multipliers busy
  int64_t together = std::clamp<int64_t>(matrix.num_panels / (8 * model.pool->num_threads()), fewest, 8);
  together -= together % 2;  // a gate stays with its up
  const bool is_bf16 = model.rows_are_bf16();
  const int64_t size = is_bf16 ? 2 : 4, parts = padded(matrix.num_panels, together) / together;
  model.pool->run(parts * shares, [&](int64_t task) {
    alignas(64) float product[8 * kRowBlock * kColumns];
    const int64_t panel = task % parts * together, row = task / parts * kRowBlock;
    const char* panels = matrix.panels.as() + panel * matrix.panel_bytes();
    Multiply m{};
    m.kind = matrix.kind;
    m.a_is_bf16 = is_bf16;
    m.a = static_cast<const char*>(rows) + row * matrix.depth * size;
    m.a_stride = matrix.depth;
    m.num_rows = std::min(kRowBlock, num_rows - row);
    m.segments = &panels;
    m.num_segments = 1;
    m.pairs = m.last_pairs = matrix.depth / 2;
    m.panel_bytes = matrix.panel_bytes();
    m.num_panels = std::min(together, matrix.num_panels - panel);
    m.out = product;
    m.out_stride = kColumns;
    m.out_panel = kRowBlock * kColumns;
    m.in_chains = true;
    model.kernels->multiply(m);
    const int64_t column = panel * kColumns;
    const float* scales = matrix.scales.as<float>();
    const float* bias = matrix.bias.as<float>();
    const bool gates = then == Then::kGate;
    const int64_t out_size = gates ? size : 4;
    model.kernels->finish({then, product, m.num_rows, m.num_panels, scales == nullptr ? nullptr : scales + column,
                           bias == nullptr ? nullptr : bias + column,
                           added == nullptr ? nullptr : added + row * matrix.num_panels * kColumns + column,
                           matrix.num_panels * kColumns,
                           static_cast<char*>(out) + (row * out_stride + (gates ? column / 2 : column)) * out_size,
                           out_stride, gates && is_bf16});
  });
}

int64_t blocks_needed(burnish_model& model, int64_t num_works, const int64_t* branches, const int64_t* counts) {
  int64_t blocks = 0;
  for (int64_t i = 0; i < num_works; i++) {
    const Branch* branch = model.branches->find(branches[i]);
    if (branch == nullptr) throw std::invalid_argument("branch " + std::to_string(branches[i]) + " is not open");
    blocks += model.branches->blocks_needed(*branch, counts[i]);
  }
  return blocks;
}

void feed(burnish_model& model, int64_t num_works, const int64_t* branches, const int64_t* counts,
          const int64_t* token_ids, bool every_token, float* hidden) {
  check_feed(model, num_works, branches, counts, token_ids);
  std::vector<Row> rows;
  std::vector<bool> is_last;
  for (int64_t i = 0, token = 0; i < num_works; i++) {
    Branch& branch = *model.branches->find(branches[i]);
    const int64_t before = branch.length;
    model.branches->grow(branch, counts[i]);
    for (int64_t j = 0; j < counts[i]; j++, token++) {
      rows.push_back({&branch, before + j, token_ids[token]});
      is_last.push_back(j + 1 == counts[i]);
    }
  }
  const int64_t width = model.shape.width;
  for (size_t start = 0; start < rows.size(); start += kMostRows) {
    const size_t end = std::min(rows.size(), start + kMostRows);
    Pass pass{model, {rows.begin() + start, rows.begin() + end}, {}, {}, {}};
    run_pass(pass);
    for (size_t i = start; i < end; i++) {
      if (!every_token && !is_last[i]) continue;
      model.kernels->normalize(model.buffers.hidden.as<float>() + (i - start) * width, model.last_norm.data(),
                               model.shape.eps, width, hidden, false);
      hidden += width;
    }
  }
}

}  // namespace burnish
