// Threads that share out numbered tasks. Tasks write to places of their own, so that who runs which changes no bit.
//
// A task is taken by counting `remaining` down; a thread that comes late finds nothing and waits again, so that a
// processor busy with other work delays nobody but its own task.
#pragma once
#include <immintrin.h>

#include <atomic>
#include <thread>
#include <vector>

namespace burnish {

class Pool {
 public:
  explicit Pool(int num_threads) {
    for (int i = 1; i < num_threads; i++) threads_.emplace_back([this] { work(); });
  }
  ~Pool() {
    stops_.store(true);
    wake();
    for (std::thread& thread : threads_) thread.join();
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int num_threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Run task(0) to task(count - 1); returns when all are done.
  template <class Task>
  void run(int64_t count, const Task& task) {
    if (threads_.empty() || count < 2) {
      for (int64_t i = 0; i < count; i++) task(i);
      return;
    }
    task_ = &task;
    call_ = [](const void* t, int64_t i) { (*static_cast<const Task*>(t))(i); };
    unfinished_.store(count, std::memory_order_relaxed);
    remaining_.store(count, std::memory_order_release);
    wake();
    help();
    for (int spins = 0; unfinished_.load(std::memory_order_acquire) > 0; spins++)
      if (spins < kSpins) _mm_pause(); else std::this_thread::yield();
  }

 private:
  static constexpr int kSpins = 4000;  // some 50 microseconds: longer than the gap between two parts of a layer

  void wake() {
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }

  void help() {
    int64_t left = remaining_.load(std::memory_order_acquire);
    while (left > 0) {
      if (!remaining_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) continue;
      call_(task_, left - 1);
      unfinished_.fetch_sub(1, std::memory_order_acq_rel);
      left = remaining_.load(std::memory_order_acquire);
    }
  }

  void work() {
    uint32_t seen = 0;
    while (!stops_.load()) {
      for (int spins = 0; spins < kSpins && round_.load(std::memory_order_acquire) == seen; spins++) _mm_pause();
      round_.wait(seen, std::memory_order_acquire);
      seen = round_.load(std::memory_order_acquire);
      help();
    }
  }

  std::vector<std::thread> threads_;
  std::atomic<bool> stops_{false};
  std::atomic<uint32_t> round_{0};
  std::atomic<int64_t> remaining_{0}, unfinished_{0};
  const void* task_ = nullptr;
  void (*call_)(const void*, int64_t) = nullptr;
};

}  // namespace burnish
