// Which blocks each branch reads: forks share them, and a shared one is copied before it is written.
//
// Invariant: a block that several branches read is full, or nobody writes to it. Blocks are handed out zeroed.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "kernels.hpp"
#include "memory.hpp"

namespace burnish {

struct Branch {
  std::vector<int64_t> blocks;
  int64_t length = 0;
  int64_t adapter = 0;  // 0: none
};

class Branches {
 public:
  Branches(int64_t num_blocks, int64_t block_bytes)
      : memory_(static_cast<size_t>(num_blocks * block_bytes)), block_bytes_(block_bytes), readers_(num_blocks, 0) {
    for (int64_t i = num_blocks - 1; i >= 0; i--) free_.push_back(i);
  }

  char* block(int64_t index) const { return memory_.as() + index * block_bytes_; }
  Branch* find(int64_t id) {
    auto found = branches_.find(id);
    return found == branches_.end() ? nullptr : &found->second;
  }
  bool is_shared(int64_t block) const { return readers_[block] > 1; }

  int64_t open(int64_t adapter) {
    branches_[next_].adapter = adapter;
    return next_++;
  }

  int64_t fork(int64_t parent_id, int64_t length) {
    const Branch& parent = branches_.at(parent_id);
    Branch child;
    child.length = length;
    child.adapter = parent.adapter;
    child.blocks.assign(parent.blocks.begin(), parent.blocks.begin() + padded(length, kBlockTokens) / kBlockTokens);
    for (int64_t block : child.blocks) readers_[block]++;
    branches_[next_] = std::move(child);
    return next_++;
  }

  void drop(int64_t id) {
    for (int64_t block : branches_.at(id).blocks) release(block);
    branches_.erase(id);
  }

  int64_t blocks_needed(const Branch& branch, int64_t count) const {
    const int64_t blocks = padded(branch.length + count, kBlockTokens) / kBlockTokens;
    return blocks - static_cast<int64_t>(branch.blocks.size()) + (tail_is_shared(branch) ? 1 : 0);
  }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }

  // Give a branch blocks of its own for `count` more tokens; there must be enough.
  void grow(Branch& branch, int64_t count) {
    if (count > 0 && tail_is_shared(branch)) {
      const int64_t shared = branch.blocks.back(), own = take();
      std::memcpy(block(own), block(shared), static_cast<size_t>(block_bytes_));
      release(shared);
      branch.blocks.back() = own;
    }
    while (static_cast<int64_t>(branch.blocks.size()) * kBlockTokens < branch.length + count) {
      branch.blocks.push_back(take());
      std::memset(block(branch.blocks.back()), 0, static_cast<size_t>(block_bytes_));
    }
    branch.length += count;
  }

 private:
  bool tail_is_shared(const Branch& branch) const {
    return branch.length % kBlockTokens != 0 && is_shared(branch.blocks.back());
  }

  int64_t take() {
    const int64_t block = free_.back();
    free_.pop_back();
    readers_[block] = 1;
    return block;
  }

  void release(int64_t block) {
    if (--readers_[block] == 0) free_.push_back(block);
  }

  Memory memory_;
  int64_t block_bytes_;
  std::vector<int32_t> readers_;
  std::vector<int64_t> free_;
  std::unordered_map<int64_t, Branch> branches_;
  int64_t next_ = 0;
};

}  // namespace burnish
