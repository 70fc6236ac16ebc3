// The head: logits of some rows at a time, their sums by chunks of columns, and one token for each.
//
// A draw inverts the cumulative distribution, as engine/sampler.py does: first over the sums of chunks, then within
// one. What a token's log-probability is does not depend on whether it was drawn or given, nor on other rows.
#include <cmath>
#include <cstring>
#include <limits>

#include "model.hpp"

namespace burnish {
namespace {

constexpr int64_t kHeadRows = kRowBlock;
constexpr int64_t kHeadPanels = 8;
constexpr int64_t kHeadColumns = kHeadPanels * kColumns;  // of a chunk

struct Part {
  burnish_model& model;
  const HeadJob& job;
  int64_t first, num_rows, num_chunks;  // rows of the job

  int64_t stride() const { return model.head.num_panels * kColumns; }
  float* logits(int64_t row) const { return model.buffers.logits.as<float>() + row * stride(); }
  float& largest(int64_t row, int64_t chunk) const { return model.buffers.largest.as<float>()[row * num_chunks + chunk]; }
  float& sum(int64_t row, int64_t chunk) const { return model.buffers.sums.as<float>()[row * num_chunks + chunk]; }
  int64_t columns(int64_t chunk) const { return std::min(kHeadColumns, model.shape.vocabulary - chunk * kHeadColumns); }
  float temperature(int64_t row) const { return job.temperatures[first + row]; }
  float inverse_temperature(int64_t row) const { return temperature(row) > 0 ? 1 / temperature(row) : 1; }
};

void multiply_chunk(const Part& part, int64_t chunk) {
  const burnish_model& m = part.model;
  alignas(64) float product[kHeadPanels * kRowBlock * kColumns];
  const char* panels = m.head.panels.as() + chunk * kHeadPanels * m.head.panel_bytes();
  Multiply p{};
  p.kind = m.head.kind;
  p.a_is_bf16 = m.rows_are_bf16();
  p.a = m.buffers.rows.as();
  p.a_stride = m.head.depth;
  p.num_rows = part.num_rows;
  p.segments = &panels;
  p.num_segments = 1;
  p.pairs = p.last_pairs = m.head.depth / 2;
  p.panel_bytes = m.head.panel_bytes();
  p.num_panels = std::min(kHeadPanels, m.head.num_panels - chunk * kHeadPanels);
  p.out = product;
  p.out_stride = kColumns;
  p.out_panel = kRowBlock * kColumns;
  p.in_chains = true;
  m.kernels->multiply(p);
  const float* bias = m.head.bias.as<float>();
  const int64_t column = chunk * kHeadColumns;
  m.kernels->finish({Then::kStore, product, p.num_rows, p.num_panels, nullptr, bias == nullptr ? nullptr : bias + column,
                     nullptr, 0, part.logits(0) + column, part.stride(), false});
  if (part.job.ask == Ask::kLogits) return;
  for (int64_t row = 0; row < part.num_rows; row++)
    m.kernels->summarize(part.logits(row) + column, part.columns(chunk), part.inverse_temperature(row),
                         &part.largest(row, chunk), &part.sum(row, chunk));
}

struct Total {
  float largest;
  double mass;
};

double chunk_factor(const Part& part, int64_t row, int64_t chunk, float largest) {
  const double distance = static_cast<double>(part.largest(row, chunk)) - largest;
  return std::exp(distance * part.inverse_temperature(row));
}

Total total_of(const Part& part, int64_t row) {
  Total total{-std::numeric_limits<float>::infinity(), 0};
  for (int64_t c = 0; c < part.num_chunks; c++) total.largest = std::max(total.largest, part.largest(row, c));
  for (int64_t c = 0; c < part.num_chunks; c++)
    if (part.sum(row, c) != 0)  // a NaN counts, so that the log-probability is one
      total.mass += part.sum(row, c) * chunk_factor(part, row, c, total.largest);
  return total;
}

int64_t most_probable(const Part& part, int64_t row, float largest) {
  const float* logits = part.logits(row);
  for (int64_t token = 0; token < part.model.shape.vocabulary; token++)
    if (logits[token] == largest) return token;
  return 0;  // all are NaN
}

// The first token within a chunk whose cumulative mass exceeds `rest`, or the last one of any mass.
int64_t invert_chunk(const Part& part, int64_t row, int64_t chunk, double rest, double factor) {
  float masses[kHeadColumns];
  const int64_t column = chunk * kHeadColumns, count = part.columns(chunk);
  part.model.kernels->exponentials(part.logits(row) + column, count, part.largest(row, chunk),
                                   part.inverse_temperature(row), masses);
  double sum = 0;
  int64_t last = 0;
  for (int64_t i = 0; i < count; i++) {
    if (masses[i] <= 0) continue;
    sum += masses[i] * factor;
    last = i;
    if (sum > rest) break;
  }
  return column + last;
}

int64_t invert(const Part& part, int64_t row, const Total& total) {
  const double target = static_cast<double>(part.job.uniforms[part.first + row]) * total.mass;
  double before = 0;
  int64_t last = 0;
  double before_last = 0;
  for (int64_t c = 0; c < part.num_chunks; c++) {
    const double mass = part.sum(row, c) > 0 ? part.sum(row, c) * chunk_factor(part, row, c, total.largest) : 0;
    if (mass <= 0) continue;
    last = c;
    before_last = before;
    before += mass;
    if (before > target) break;
  }
  return invert_chunk(part, row, last, target - before_last, chunk_factor(part, row, last, total.largest));
}

void finish_row(const Part& part, int64_t row) {
  const Total total = total_of(part, row);
  int64_t& token = part.job.token_ids[part.first + row];
  if (part.job.ask == Ask::kDraw)
    token = part.temperature(row) > 0 ? invert(part, row, total) : most_probable(part, row, total.largest);
  const double distance = static_cast<double>(part.logits(row)[token]) - total.largest;
  part.job.out[part.first + row] =
      static_cast<float>(distance * part.inverse_temperature(row) - std::log(total.mass));
}

void copy_logits(const Part& part, int64_t row) {
  const int64_t vocabulary = part.model.shape.vocabulary;
  std::memcpy(part.job.out + (part.first + row) * vocabulary, part.logits(row), 4 * vocabulary);
}

}  // namespace

void run_head(burnish_model& model, const HeadJob& job) {
  const int64_t num_chunks = padded(model.head.num_panels, kHeadPanels) / kHeadPanels, width = model.shape.width;
  const int64_t most = std::min(kHeadRows, job.num_rows);
  model.buffers.rows.reach(kRowBlock * 4 * model.head.depth);
  model.buffers.logits.reach(most * model.head.num_panels * kColumns * 4);
  model.buffers.largest.reach(most * num_chunks * 4);
  model.buffers.sums.reach(most * num_chunks * 4);
  for (int64_t first = 0; first < job.num_rows; first += kHeadRows) {
    const Part part{model, job, first, std::min(kHeadRows, job.num_rows - first), num_chunks};
    for (int64_t row = 0; row < part.num_rows; row++)
      model.kernels->convert(job.hidden + (first + row) * width, width,
                             model.buffers.rows.as() + row * model.head.depth * (model.rows_are_bf16() ? 2 : 4),
                             model.rows_are_bf16());
    model.pool->run(num_chunks, [&](int64_t chunk) { multiply_chunk(part, chunk); });
    model.pool->run(part.num_rows, [&](int64_t row) {
      if (job.ask == Ask::kLogits) copy_logits(part, row); else finish_row(part, row);
    });
  }
}

}  // namespace burnish
