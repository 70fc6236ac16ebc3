// Weights to panels, adapters merged on the way: W + scale * up . down, rounded once.
#include <cmath>
#include <cstring>

#include "model.hpp"

namespace burnish {
namespace {

float from_bf16(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float x;
  std::memcpy(&x, &word, 4);
  return x;
}

uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if (x != x) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// One row of a layer in float32, its adapter added.
void merged_row(const Linear& layer, int64_t row, float* out) {
  if (layer.is_bf16) {
    const uint16_t* weight = static_cast<const uint16_t*>(layer.weight) + row * layer.columns;
    for (int64_t k = 0; k < layer.columns; k++) out[k] = from_bf16(weight[k]);
  } else {
    std::memcpy(out, static_cast<const float*>(layer.weight) + row * layer.columns, 4 * layer.columns);
  }
  for (int64_t r = 0; r < layer.rank; r++) {
    const float factor = layer.scale * layer.up[row * layer.rank + r];
    const float* down = layer.down + r * layer.columns;
    for (int64_t k = 0; k < layer.columns; k++) out[k] += factor * down[k];
  }
}

float bias_of(const Linear& layer, int64_t row) {
  if (layer.bias == nullptr) return 0;
  return layer.is_bf16 ? from_bf16(static_cast<const uint16_t*>(layer.bias)[row])
                       : static_cast<const float*>(layer.bias)[row];
}

// Where panel `index` comes from: a layer, and its first row there.
struct Origin {
  int64_t part, row;
};

Origin origin(const Linear* parts, int64_t num_parts, bool interleave, int64_t index) {
  if (interleave) return {index % num_parts, index / num_parts * kColumns};
  for (int64_t part = 0;; part++) {
    const int64_t panels = padded(parts[part].rows, kColumns) / kColumns;
    if (index < panels) return {part, index * kColumns};
    index -= panels;
  }
}

// rows: [16][depth]; each is written as one column of the panel.
void write_panel(const float* rows, int64_t depth, Kind kind, const float* scales, char* panel) {
  for (int64_t k = 0; k < depth; k++)
    for (int64_t c = 0; c < kColumns; c++) {
      const float x = rows[c * depth + k];
      if (kind == Kind::kFloat32)
        reinterpret_cast<float*>(panel)[k * kColumns + c] = x;
      else if (kind == Kind::kBfloat16)
        reinterpret_cast<uint16_t*>(panel)[(k / 2 * kColumns + c) * 2 + k % 2] = to_bf16(x);
      else
        reinterpret_cast<int8_t*>(panel)[k * kColumns + c] = static_cast<int8_t>(std::lrintf(x / scales[c]));
    }
}

}  // namespace

void pack(Pool& pool, const Linear* parts, int64_t num_parts, bool interleave, Kind kind, Matrix& matrix) {
  matrix.kind = kind;
  matrix.depth = padded(parts[0].columns, 32);
  matrix.num_panels = 0;
  bool has_bias = false;
  for (int64_t i = 0; i < num_parts; i++) {
    matrix.num_panels += padded(parts[i].rows, kColumns) / kColumns;
    has_bias = has_bias || parts[i].bias != nullptr;
  }
  const size_t columns_bytes = static_cast<size_t>(matrix.num_panels * kColumns * 4);
  if (matrix.panels.bytes() == 0) {
    matrix.panels = Memory(static_cast<size_t>(matrix.num_panels * matrix.panel_bytes()));
    if (kind == Kind::kInt8) matrix.scales = Memory(columns_bytes);
    if (has_bias) matrix.bias = Memory(columns_bytes);
  }
  pool.run(matrix.num_panels, [&](int64_t index) {
    const Origin from = origin(parts, num_parts, interleave, index);
    const Linear& layer = parts[from.part];
    std::vector<float> rows(static_cast<size_t>(kColumns * matrix.depth), 0.f);
    float scales[kColumns];
    for (int64_t c = 0; c < kColumns; c++) {
      float* row = rows.data() + c * matrix.depth;
      const bool is_row = from.row + c < layer.rows;
      if (is_row) merged_row(layer, from.row + c, row);
      scales[c] = scale_of(row, matrix.depth);
      const int64_t column = index * kColumns + c;
      if (kind == Kind::kInt8) matrix.scales.as<float>()[column] = scales[c];
      if (has_bias) matrix.bias.as<float>()[column] = is_row ? bias_of(layer, from.row + c) : 0;
    }
    write_panel(rows.data(), matrix.depth, kind, scales, matrix.panels.as() + index * matrix.panel_bytes());
  });
}

}  // namespace burnish
