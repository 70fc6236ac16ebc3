// Vectors of one instruction set's width, by the compiler's vector extension.
//
// Everything is in an unnamed namespace and nothing of the standard library is used: a function that the linker
// merged between instruction sets would carry the wider one's instructions to processors that lack them.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace {

#ifdef BURNISH_WIDE
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
constexpr int kVectors = 16 / kLanes;  // of a panel's row

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
typedef int8_t Bytes __attribute__((vector_size(kLanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));

template <class Vector>
inline Vector load(const void* at) {
  Vector v;
  __builtin_memcpy(&v, at, sizeof v);
  return v;
}

template <class Vector>
inline void store(void* at, Vector v) {
  __builtin_memcpy(at, &v, sizeof v);
}

inline Floats splat(float x) { return x - Floats{}; }
inline Floats floats(Words bits) { return reinterpret_cast<Floats>(bits); }
inline Words words(Floats x) { return reinterpret_cast<Words>(x); }
inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }  // b where one is a NaN
inline Floats even_of_pairs(Words pairs) { return floats(pairs << 16); }
inline Floats odd_of_pairs(Words pairs) { return floats(pairs & 0xffff0000u); }
// Bytes to float32. The compiler's own conversion of vectors goes through single numbers, thus the intrinsics.
inline Floats widen(const void* at) {
#if !defined(BURNISH_WIDE)
  return reinterpret_cast<Floats>(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(at)))));
#elif defined(BURNISH_EMULATED)
  return __builtin_convertvector(__builtin_convertvector(load<Bytes>(at), Ints), Floats);
#else
  return reinterpret_cast<Floats>(
      _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(at)))));
#endif
}

// The upper halves, rounded to nearest even; a NaN stays one.
inline Words round_to_bf16(Floats x) {
  Words bits = words(x);
  Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return x == x ? rounded : (bits >> 16) | 0x40u;
}

inline float sum(Floats v) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) v[i] += v[i + half];
  return v[0];
}

inline float largest(Floats v) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) v[i] = v[i] > v[i + half] ? v[i] : v[i + half];
  return v[0];
}

// e^x for x <= 88 (not beyond), within 2 units in the last place; 0 below -87; a NaN stays one. e^x = 2^n e^r with
// |r| <= ln(2) / 2, and Taylor's series to r^7 leaves an error of 0.35^8 / 8! = 6e-9. e^0 is exactly 1.
inline Floats exponential(Floats x) {
  const Floats to_round = splat(12582912.f);  // 1.5 * 2^23: adding it leaves no place for a fraction
  Floats clamped = larger(splat(-87.f), x);
  Floats n = (clamped * 1.44269504f + to_round) - to_round;
  Floats r = clamped - n * 0.693359375f + n * 2.12194440e-4f;  // ln(2) in two parts, the first exact in 10 bits
  Floats p = splat(1.f / 5040);
  p = p * r + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  Words power = reinterpret_cast<Words>(__builtin_convertvector(n, Ints) + 127) << 23;
  Floats y = p * floats(power);
  return x < -87.f ? Floats{} : y;
}

// Store one vector as activations: float32, or rounded to bfloat16.
inline void store_row(void* row, int64_t index, Floats x, bool is_bf16) {
  if (is_bf16)
    store(static_cast<uint16_t*>(row) + index, __builtin_convertvector(round_to_bf16(x), Halves));
  else
    store(static_cast<float*>(row) + index, x);
}

}  // namespace
