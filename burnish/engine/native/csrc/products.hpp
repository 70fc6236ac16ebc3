// Products of rows with panels in float32 arithmetic: R rows by P panels are summed in registers.
//
// A sum runs over the depth in one chain of fused multiply-adds, or in chains of 64 depths that are added up in order,
// whatever R and P are.
#pragma once
#include "kernels.hpp"
#include "vectors.hpp"

namespace {

using burnish::Multiply;

// So many rows with one panel (two if vectors are wide) fill the registers; widening bfloat16 needs some itself.
template <class From>
constexpr int64_t kMostRows = kLanes == 16 ? 8 : From::kPairBytes == 64 ? 5 : 6;
constexpr int kUsualPanels = kLanes == 16 ? 2 : 1;
constexpr int64_t kChainPairs = 32;
constexpr int64_t kDepthPairs = 4 * kChainPairs;  // of a panel that stays in the first-level cache for all rows

// How a panel's two rows of one pair of depths are read.
struct FromFloats {
  static constexpr int64_t kPairBytes = 128;
  static inline void even(const char* at, Floats (&b)[kVectors]) {
    for (int j = 0; j < kVectors; j++) b[j] = load<Floats>(at + 4 * kLanes * j);
  }
  static inline void odd(const char* at, Floats (&b)[kVectors]) { even(at + 64, b); }
};

struct FromBf16 {
  static constexpr int64_t kPairBytes = 64;
  static inline void even(const char* at, Floats (&b)[kVectors]) {
    for (int j = 0; j < kVectors; j++) b[j] = even_of_pairs(load<Words>(at + 4 * kLanes * j));
  }
  static inline void odd(const char* at, Floats (&b)[kVectors]) {
    for (int j = 0; j < kVectors; j++) b[j] = odd_of_pairs(load<Words>(at + 4 * kLanes * j));
  }
};

struct FromBytes {
  static constexpr int64_t kPairBytes = 32;
  static inline void even(const char* at, Floats (&b)[kVectors]) {
    for (int j = 0; j < kVectors; j++) b[j] = widen(at + kLanes * j);
  }
  static inline void odd(const char* at, Floats (&b)[kVectors]) { even(at + 16, b); }
};

// Add the sums of a chain to what is in `out`, and begin the next.
template <int R, int P>
inline void end_chain(const Multiply& m, float* out, Floats (&sums)[R][P][kVectors], bool has_total) {
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
#pragma GCC unroll 8
    for (int p = 0; p < P; p++)
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; j++) {
        float* at = out + r * m.out_stride + p * m.out_panel + j * kLanes;
        store(at, has_total ? load<Floats>(at) + sums[r][p][j] : sums[r][p][j]);
        sums[r][p][j] = Floats{};
      }
}

template <class From, int R, int P>
inline void multiply_tile(const Multiply& m, int64_t row, int64_t panel) {
  Floats sums[R][P][kVectors];
  float* out = m.out + row * m.out_stride + panel * m.out_panel;
  // All loops over registers are unrolled, lest the compiler keeps the sums in memory.
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
#pragma GCC unroll 8
    for (int p = 0; p < P; p++)
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; j++)
        sums[r][p][j] = m.resume && !m.in_chains ? load<Floats>(out + r * m.out_stride + p * m.out_panel + j * kLanes) : Floats{};
  const float* a = static_cast<const float*>(m.a) + row * m.a_stride;
  for (int64_t s = 0; s < m.num_segments; s++) {
    const char* b = m.segments[s] + panel * m.panel_bytes;
    const int64_t pairs = s + 1 < m.num_segments ? m.pairs : m.last_pairs;
    for (int64_t k = 0; k < pairs; k++, a += 2, b += From::kPairBytes) {
      if (m.in_chains && k > 0 && k % kChainPairs == 0)
        end_chain<R, P>(m, out, sums, m.resume || k > kChainPairs);
      if (R <= 4) __builtin_prefetch(b + 4096);  // few rows wait for memory, and the processor stops at page ends
#pragma GCC unroll 8
      for (int p = 0; p < P; p++) {
        Floats b_V[kVectors];
        const float* a_now = a;
        __asm__("" : "+r"(a_now));  // read again for each panel: there are no registers to keep it in
        From::even(b + p * m.panel_bytes, b_V);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
#pragma GCC unroll 2
          for (int j = 0; j < kVectors; j++) sums[r][p][j] += a_now[r * m.a_stride] * b_V[j];
        From::odd(b + p * m.panel_bytes, b_V);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
#pragma GCC unroll 2
          for (int j = 0; j < kVectors; j++) sums[r][p][j] += a_now[r * m.a_stride + 1] * b_V[j];
      }
    }
  }
  const bool has_total = m.in_chains && (m.resume || m.last_pairs > kChainPairs);
  end_chain<R, P>(m, out, sums, has_total);
}

template <int R>
constexpr int panels_together() {
  return kLanes == 16 ? (R == 1 ? 8 : R <= 4 ? 4 : 2) : (R == 1 ? 4 : R <= 3 ? 2 : 1);
}

// Few rows: several panels at once, so that there are enough chains to keep the multipliers busy.
template <class From, int R>
void multiply_few(const Multiply& m, int64_t row) {
  constexpr int P = panels_together<R>();
  int64_t panel = 0;
  for (; panel + P <= m.num_panels; panel += P) multiply_tile<From, R, P>(m, row, panel);
  for (; panel < m.num_panels; panel++) multiply_tile<From, R, 1>(m, row, panel);
}

template <class From>
void multiply_rest(const Multiply& m, int64_t row) {
  switch (m.num_rows - row) {
    case 1: return multiply_few<From, 1>(m, row);
    case 2: return multiply_few<From, 2>(m, row);
    case 3: return multiply_few<From, 3>(m, row);
    case 4: return multiply_few<From, 4>(m, row);
    case 5: return multiply_few<From, 5>(m, row);
#ifdef BURNISH_WIDE
    case 6: return multiply_few<From, 6>(m, row);
    case 7: return multiply_few<From, 7>(m, row);
#endif
    default: return;
  }
}

template <class From, int P>
void multiply_rows(const Multiply& m, int64_t panel) {
  for (int64_t row = 0; row + kMostRows<From> <= m.num_rows; row += kMostRows<From>)
    multiply_tile<From, kMostRows<From>, P>(m, row, panel);
}

template <class From>
void multiply_part(const Multiply& m) {
  int64_t panel = 0;
  for (; panel + kUsualPanels <= m.num_panels; panel += kUsualPanels) multiply_rows<From, kUsualPanels>(m, panel);
  for (; panel < m.num_panels; panel++) multiply_rows<From, 1>(m, panel);
  multiply_rest<From>(m, m.num_rows / kMostRows<From> * kMostRows<From>);
}

// Many rows over a long depth go through it in parts, each part of a panel read by all rows.
template <class From>
void multiply_from(const Multiply& m) {
  if (m.num_segments > 1 || m.num_rows < kMostRows<From>) return multiply_part<From>(m);
  Multiply part = m;
  const char* at = m.segments[0];
  part.segments = &at;
  part.num_segments = 1;
  for (int64_t done = 0; done < m.last_pairs; done += kDepthPairs) {
    const int64_t left = m.last_pairs - done;
    part.last_pairs = left < kDepthPairs ? left : kDepthPairs;
    part.a = static_cast<const float*>(m.a) + 2 * done;
    at = m.segments[0] + done * From::kPairBytes;
    part.resume = m.resume || done > 0;
    multiply_part<From>(part);
  }
}

}  // namespace
