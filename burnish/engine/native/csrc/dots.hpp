// Products of bfloat16 rows with bfloat16 panels by vdpbf16ps: two depths at a time, summed in float32.
//
// BURNISH_EMULATED replaces the instruction by what its manual says (Intel SDM, VDPBF16PS: the odd product is added
// first), so that this code is tested on processors without it.
#pragma once
#include "kernels.hpp"
#include "vectors.hpp"
#ifndef BURNISH_EMULATED
#include <immintrin.h>
#endif

namespace {

using burnish::Multiply;

inline Floats dot(Floats sum, Words a_pairs, Words b_pairs) {
#ifdef BURNISH_EMULATED
  sum += odd_of_pairs(a_pairs) * odd_of_pairs(b_pairs);
  return sum + even_of_pairs(a_pairs) * even_of_pairs(b_pairs);
#else
  return reinterpret_cast<Floats>(
      _mm512_dpbf16_ps(reinterpret_cast<__m512>(sum), reinterpret_cast<__m512bh>(a_pairs), reinterpret_cast<__m512bh>(b_pairs)));
#endif
}

inline Words pair_of(const uint16_t* at) {
  uint32_t pair;
  __builtin_memcpy(&pair, at, 4);
  return pair - Words{};
}

template <int R, int P>
inline void dot_tile(const Multiply& m, int64_t row, int64_t panel) {
  Floats sums[R][P];
  float* out = m.out + row * m.out_stride + panel * m.out_panel;
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
#pragma GCC unroll 8
    for (int p = 0; p < P; p++)
      sums[r][p] = m.resume ? load<Floats>(out + r * m.out_stride + p * m.out_panel) : Floats{};
  const uint16_t* a = static_cast<const uint16_t*>(m.a) + row * m.a_stride;
  for (int64_t s = 0; s < m.num_segments; s++) {
    const char* b = m.segments[s] + panel * m.panel_bytes;
    const int64_t pairs = s + 1 < m.num_segments ? m.pairs : m.last_pairs;
    for (int64_t k = 0; k < pairs; k++, a += 2, b += 64) {
      Words b_P[P];
#pragma GCC unroll 8
      for (int p = 0; p < P; p++) b_P[p] = load<Words>(b + p * m.panel_bytes);
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) {
        Words pair = pair_of(a + r * m.a_stride);
#pragma GCC unroll 8
        for (int p = 0; p < P; p++) sums[r][p] = dot(sums[r][p], pair, b_P[p]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
#pragma GCC unroll 8
    for (int p = 0; p < P; p++) store(out + r * m.out_stride + p * m.out_panel, sums[r][p]);
}

template <int R>
void dot_rows(const Multiply& m, int64_t row) {
  constexpr int P = R == 1 ? 8 : R <= 4 ? 4 : 2;
  int64_t panel = 0;
  for (; panel + P <= m.num_panels; panel += P) dot_tile<R, P>(m, row, panel);
  for (; panel < m.num_panels; panel++) dot_tile<R, 1>(m, row, panel);
}

inline void multiply_dots(const Multiply& m) {
  int64_t row = 0;
  for (; row + 8 <= m.num_rows; row += 8) dot_rows<8>(m, row);
  switch (m.num_rows - row) {
    case 1: return dot_rows<1>(m, row);
    case 2: return dot_rows<2>(m, row);
    case 3: return dot_rows<3>(m, row);
    case 4: return dot_rows<4>(m, row);
    case 5: return dot_rows<5>(m, row);
    case 6: return dot_rows<6>(m, row);
    case 7: return dot_rows<7>(m, row);
    default: return;
  }
}

}  // namespace
