// Which instruction sets were compiled and run here. A level that was not compiled is a null pointer.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "model.hpp"

#define BURNISH_LEVELS(X) X(amx) X(avx512_bf16) X(avx512) X(avx2)
#define DECLARE(level) extern "C" const burnish::Kernels burnish_kernels_##level __attribute__((weak));
BURNISH_LEVELS(DECLARE)

namespace burnish {
namespace {

struct Leaf {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Leaf leaf(uint32_t number, uint32_t sub) {
  Leaf found;
  __get_cpuid_count(number, sub, &found.a, &found.b, &found.c, &found.d);
  return found;
}

bool has(uint32_t word, int bit) { return (word >> bit & 1) != 0; }

// Which register files the system saves (Intel SDM volume 1, 13.3).
uint64_t saved_state() {
  if (!has(leaf(1, 0).c, 27)) return 0;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

// Linux hands out the tiles on request only (Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

[[maybe_unused]] bool runs(const std::string& level) {
  const Leaf seven = leaf(7, 0), more = leaf(7, 1);
  const uint64_t saved = saved_state();
  const bool avx2 = (saved & 6) == 6 && has(seven.b, 5) && has(leaf(1, 0).c, 12);
  if (level == "avx2") return avx2;
  const bool avx512 = avx2 && (saved & 0xe6) == 0xe6 && has(seven.b, 16) && has(seven.b, 17) && has(seven.b, 30) &&
                      has(seven.b, 31);
  if (level == "avx512") return avx512;
  const bool dots = avx512 && has(more.a, 5);
  if (level == "avx512_bf16") return dots;
  return dots && (saved & 0x60000) == 0x60000 && has(seven.d, 22) && has(seven.d, 24) && may_use_tiles();
}

}  // namespace

std::string levels() {
  std::string names;
#ifdef BURNISH_EMULATED
#define RUNS(level) true
#else
#define RUNS(level) runs(#level)
#endif
#define ADD(level) \
  if (&burnish_kernels_##level != nullptr && RUNS(level)) names += names.empty() ? #level : " " #level;
  BURNISH_LEVELS(ADD)
  return names;
}

const Kernels* kernels_of(const std::string& level) {
  const std::string known = " " + levels() + " ";
#define FIND(name) \
  if (level == #name && known.find(" " #name " ") != std::string::npos) return &burnish_kernels_##name;
  BURNISH_LEVELS(FIND)
  throw std::invalid_argument("no level '" + level + "' on this processor; there are: " + levels());
}

}  // namespace burnish
