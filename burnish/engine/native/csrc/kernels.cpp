// The kernels of one instruction set; compiled once for each, with its flags and name.
//
// BURNISH_LEVEL names the set, BURNISH_WIDE asks for vectors of 512 bits, BURNISH_DOTS for vdpbf16ps and
// BURNISH_TILES for AMX.
#include "kernels.hpp"

#include "products.hpp"
#include "vectors.hpp"
#ifdef BURNISH_DOTS
#include "dots.hpp"
#endif
#ifdef BURNISH_TILES
#include "amx.hpp"
#endif

namespace {

using burnish::Finish;
using burnish::Kernels;
using burnish::kColumns;
using burnish::kRowBlock;
using burnish::Then;

#ifdef BURNISH_DOTS
inline void multiply_bf16(const Multiply& m) {
#ifdef BURNISH_TILES
  if (m.last_pairs % 16 == 0 && m.pairs % 16 == 0) return multiply_amx(m);
#endif
  multiply_dots(m);
}

// Bytes are exact in bfloat16: a panel is widened once for all rows, the scale follows in `finish`.
void multiply_widened(const Multiply& m) {
  constexpr int64_t kPairs = 256;
  alignas(64) uint32_t wide[kPairs * 16];
  const char* at = reinterpret_cast<const char*>(wide);
  Multiply part = m;
  part.kind = burnish::Kind::kBfloat16;
  part.segments = &at;
  part.num_panels = 1;
  part.panel_bytes = 0;
  for (int64_t panel = 0; panel < m.num_panels; panel++) {
    part.out = m.out + panel * m.out_panel;
    for (int64_t done = 0; done < m.last_pairs; done += kPairs) {
      const char* bytes = m.segments[0] + panel * m.panel_bytes + done * 32;
      part.last_pairs = m.last_pairs - done < kPairs ? m.last_pairs - done : kPairs;
      for (int64_t k = 0; k < part.last_pairs; k++)
        store(wide + 16 * k, (words(widen(bytes + 32 * k)) >> 16) |
                                 (words(widen(bytes + 32 * k + 16)) & 0xffff0000u));
      part.a = static_cast<const uint16_t*>(m.a) + 2 * done;
      part.resume = m.resume || done > 0;
      multiply_bf16(part);
    }
  }
}
#endif

void multiply(const Multiply& m) {
#ifdef BURNISH_DOTS
  if (m.a_is_bf16) return m.kind == burnish::Kind::kBfloat16 ? multiply_bf16(m) : multiply_widened(m);
#endif
  switch (m.kind) {
    case burnish::Kind::kFloat32: return multiply_from<FromFloats>(m);
    case burnish::Kind::kBfloat16: return multiply_from<FromBf16>(m);
    case burnish::Kind::kInt8: return multiply_from<FromBytes>(m);
  }
}

inline Floats finished(const Finish& f, int64_t panel, int64_t row, int64_t column) {
  Floats y = load<Floats>(f.product + (panel * kRowBlock + row) * kColumns + column);
  if (f.scales != nullptr) y *= load<Floats>(f.scales + panel * kColumns + column);
  if (f.bias != nullptr) y += load<Floats>(f.bias + panel * kColumns + column);
  if (f.added != nullptr) y += load<Floats>(f.added + row * f.added_stride + panel * kColumns + column);
  return y;
}

void finish_gate(const Finish& f) {
  const int64_t size = f.out_is_bf16 ? 2 : 4;
  for (int64_t row = 0; row < f.num_rows; row++) {
    char* out = static_cast<char*>(f.out) + row * f.out_stride * size;
    for (int64_t panel = 0; panel < f.num_panels; panel += 2)
      for (int64_t c = 0; c < kColumns; c += kLanes) {
        const Floats gate = finished(f, panel, row, c), up = finished(f, panel + 1, row, c);
        const Floats clamped = larger(splat(-88.f), gate);  // SiLU is 0 long before
        store_row(out, panel / 2 * kColumns + c, gate / (1.f + exponential(-clamped)) * up, f.out_is_bf16);
      }
  }
}

void finish(const Finish& f) {
  if (f.then == Then::kGate) return finish_gate(f);
  for (int64_t row = 0; row < f.num_rows; row++) {
    float* out = static_cast<float*>(f.out) + row * f.out_stride;
    for (int64_t panel = 0; panel < f.num_panels; panel++)
      for (int64_t c = 0; c < kColumns; c += kLanes) {
        float* at = out + panel * kColumns + c;
        Floats y = finished(f, panel, row, c);
        store(at, f.then == Then::kAdd ? load<Floats>(at) + y : y);
      }
  }
}

// Root-mean-square norm, https://arxiv.org/abs/1910.07467, eq. 4, with the usual epsilon. Widths come in eights.
void normalize(const float* x, const float* weight, float eps, int64_t width, void* out, bool out_is_bf16) {
  Floats squares{};
  float rest = 0;
  const int64_t whole = width / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) squares += load<Floats>(x + i) * load<Floats>(x + i);
  for (int64_t i = whole; i < width; i++) rest += x[i] * x[i];
  const float scale = 1 / __builtin_sqrtf((sum(squares) + rest) / width + eps);
  for (int64_t i = 0; i < whole; i += kLanes)
    store_row(out, i, load<Floats>(x + i) * scale * load<Floats>(weight + i), out_is_bf16);
  for (int64_t i = whole; i < width; i++) {
    const float y = x[i] * scale * weight[i];
    if (out_is_bf16)
      static_cast<uint16_t*>(out)[i] = round_to_bf16(splat(y))[0];
    else
      static_cast<float*>(out)[i] = y;
  }
}

void convert(const float* x, int64_t count, void* out, bool out_is_bf16) {
  for (int64_t i = 0; i + kLanes <= count; i += kLanes) store_row(out, i, load<Floats>(x + i), out_is_bf16);
  for (int64_t i = count / kLanes * kLanes; i < count; i++)
    if (out_is_bf16)
      static_cast<uint16_t*>(out)[i] = round_to_bf16(splat(x[i]))[0];
    else
      static_cast<float*>(out)[i] = x[i];
}

// Rotary positions, https://arxiv.org/abs/2104.09864, eq. 34, on the halves of a head (as Llama lays them out).
void rotate(float* head, const float* cosines, const float* sines, int64_t width) {
  const int64_t half = width / 2;
  for (int64_t i = 0; i < half; i++) {
    const float x = head[i], y = head[i + half];
    head[i] = x * cosines[i] - y * sines[i];
    head[i + half] = y * cosines[i] + x * sines[i];
  }
}

void summarize(const float* x, int64_t count, float inverse_temperature, float* largest_x, float* sum_x) {
  Floats most_V = splat(-__builtin_inff());
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) most_V = larger(load<Floats>(x + i), most_V);
  float most_x = largest(most_V);
  for (int64_t i = whole; i < count; i++) most_x = x[i] > most_x ? x[i] : most_x;
  Floats sum_V{};
  const Floats most_all = splat(most_x);
  for (int64_t i = 0; i < whole; i += kLanes)
    sum_V += exponential((load<Floats>(x + i) - most_all) * inverse_temperature);
  float rest = 0;
  for (int64_t i = whole; i < count; i++) rest += exponential(splat((x[i] - most_x) * inverse_temperature))[0];
  *largest_x = most_x;
  *sum_x = sum(sum_V) + rest;
}

void exponentials(const float* x, int64_t count, float largest_x, float inverse_temperature, float* out) {
  for (int64_t i = 0; i < count; i++) out[i] = exponential(splat((x[i] - largest_x) * inverse_temperature))[0];
}

}  // namespace

#include "attention.hpp"

#define JOIN(a, b) a##b
#define NAME_OF(level) JOIN(burnish_kernels_, level)
#define TEXT_OF_(level) #level
#define TEXT_OF(level) TEXT_OF_(level)
#ifdef BURNISH_DOTS
constexpr bool kTakesBf16 = true;
#else
constexpr bool kTakesBf16 = false;
#endif

extern "C" const Kernels NAME_OF(BURNISH_LEVEL);
extern "C" const Kernels NAME_OF(BURNISH_LEVEL) = {
    TEXT_OF(BURNISH_LEVEL), kTakesBf16, multiply, finish,    attend, normalize,
    convert,                rotate,     summarize, exponentials,
};
