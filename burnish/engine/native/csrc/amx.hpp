// Products of bfloat16 rows with bfloat16 panels on AMX tiles: 32 rows by two panels, 32 depths at a time.
//
// A tile is 16 rows of 64 bytes, whatever the batch: rows beyond the last are computed from padding and thrown away.
// Depths come in whole tiles (32); blocks of values are padded with zero weights.
// BURNISH_EMULATED replaces the four instructions by what their manual says (Intel SDM, TDPBF16PS).
#pragma once
#include "kernels.hpp"
#ifndef BURNISH_EMULATED
#include <immintrin.h>
#endif

namespace {

using burnish::Multiply;

#ifdef BURNISH_EMULATED
struct Tile {
  uint32_t at[16][16];
};
inline Tile tile_registers[8];  // tests run the emulation on one thread
#define tile_zero(t) tile_registers[t] = Tile{}
inline void load_tile(int t, const void* from, int64_t stride) {
  for (int r = 0; r < 16; r++) __builtin_memcpy(tile_registers[t].at[r], static_cast<const char*>(from) + r * stride, 64);
}
inline void store_tile(int t, void* to, int64_t stride) {
  for (int r = 0; r < 16; r++) __builtin_memcpy(static_cast<char*>(to) + r * stride, tile_registers[t].at[r], 64);
}
inline float as_float(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
inline void multiply_tiles(int c, int a, int b) {
  for (int m = 0; m < 16; m++)
    for (int k = 0; k < 16; k++)
      for (int n = 0; n < 16; n++) {
        const uint32_t x = tile_registers[a].at[m][k], y = tile_registers[b].at[k][n];
        float sum = as_float(tile_registers[c].at[m][n]);
        sum += as_float(x << 16) * as_float(y << 16);
        sum += as_float(x & 0xffff0000u) * as_float(y & 0xffff0000u);
        __builtin_memcpy(&tile_registers[c].at[m][n], &sum, 4);
      }
}
#define tile_load(t, from, stride) load_tile(t, from, stride)
#define tile_store(t, to, stride) store_tile(t, to, stride)
#define tile_multiply(c, a, b) multiply_tiles(c, a, b)
inline void begin_tiles() {}
inline void end_tiles() {}
#else
#define tile_zero(t) _tile_zero(t)
#define tile_load(t, from, stride) _tile_loadd(t, from, stride)
#define tile_store(t, to, stride) _tile_stored(t, to, stride)
#define tile_multiply(c, a, b) _tile_dpbf16ps(c, a, b)
inline void begin_tiles() {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  _tile_loadconfig(&config);
}
inline void end_tiles() { _tile_release(); }
#endif

// Where a tile of sums is stored: in place, or beside it when some of its rows are not ours.
inline void copy_rows(const float* from, float* to, int64_t stride, int64_t rows) {
  for (int64_t r = 0; r < rows; r++) __builtin_memcpy(to + r * stride, from + 16 * r, 64);
}

#define STORE_SUMS(t, r, p)                                                            \
  do {                                                                                 \
    float* to = out + (r) * 16 * m.out_stride + (p) * m.out_panel;                     \
    const int64_t rows = m.num_rows - row - 16 * (r);                                  \
    if (rows >= 16) {                                                                  \
      tile_store(t, to, m.out_stride * 4);                                             \
    } else {                                                                           \
      tile_store(t, beside, 64);                                                       \
      copy_rows(beside, to, m.out_stride, rows);                                       \
    }                                                                                  \
  } while (0)

#define BEGIN_SUMS(t, r, p)                                                                      \
  do {                                                                                           \
    if (m.resume)                                                                                \
      tile_load(t, out + (r) * 16 * m.out_stride + (p) * m.out_panel, m.out_stride * 4);         \
    else                                                                                         \
      tile_zero(t);                                                                              \
  } while (0)

// Tiles 0-3 hold sums [row tile][panel], 4 and 5 rows, 6 and 7 panels.
template <bool kTwoRows, bool kTwoPanels>
inline void multiply_on_tiles(const Multiply& m, int64_t row, int64_t panel) {
  alignas(64) float beside[256];
  float* out = m.out + row * m.out_stride + panel * m.out_panel;
  BEGIN_SUMS(0, 0, 0);
  if (kTwoPanels) BEGIN_SUMS(1, 0, 1);
  if (kTwoRows) BEGIN_SUMS(2, 1, 0);
  if (kTwoRows && kTwoPanels) BEGIN_SUMS(3, 1, 1);
  const uint16_t* a = static_cast<const uint16_t*>(m.a) + row * m.a_stride;
  for (int64_t s = 0; s < m.num_segments; s++) {
    const char* b = m.segments[s] + panel * m.panel_bytes;
    const int64_t pairs = s + 1 < m.num_segments ? m.pairs : m.last_pairs;
    for (int64_t k = 0; k < pairs; k += 16, a += 32, b += 1024) {
      tile_load(4, a, m.a_stride * 2);
      tile_load(6, b, 64);
      tile_multiply(0, 4, 6);
      if (kTwoPanels) {
        tile_load(7, b + m.panel_bytes, 64);
        tile_multiply(1, 4, 7);
      }
      if (kTwoRows) {
        tile_load(5, a + 16 * m.a_stride, m.a_stride * 2);
        tile_multiply(2, 5, 6);
        if (kTwoPanels) tile_multiply(3, 5, 7);
      }
    }
  }
  STORE_SUMS(0, 0, 0);
  if (kTwoPanels) STORE_SUMS(1, 0, 1);
  if (kTwoRows) STORE_SUMS(2, 1, 0);
  if (kTwoRows && kTwoPanels) STORE_SUMS(3, 1, 1);
}

template <bool kTwoPanels>
inline void multiply_row_tiles(const Multiply& m, int64_t panel) {
  int64_t row = 0;
  for (; row + 16 < m.num_rows; row += 32) multiply_on_tiles<true, kTwoPanels>(m, row, panel);
  if (row < m.num_rows) multiply_on_tiles<false, kTwoPanels>(m, row, panel);
}

inline void multiply_amx(const Multiply& m) {
  begin_tiles();
  int64_t panel = 0;
  for (; panel + 2 <= m.num_panels; panel += 2) multiply_row_tiles<true>(m, panel);
  if (panel < m.num_panels) multiply_row_tiles<false>(m, panel);
  end_tiles();
}

}  // namespace
