// The states a search has met, each with a number. States of equal hash are told apart by their words.
//
// Most lookups find a state that is known, at random in memory that no cache holds. So they touch two places only:
// the slot, which has part of the hash, and the record it leads to, which has everything else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "order/walker.h"

namespace tide {

class StateTable {
 public:
  static constexpr size_t kMostMemory = size_t{32} << 30;  // as far as 32 bits count words

  StateTable() { clear(); }

  void clear() {
    records_.clear();
    record_of_.clear();
    slots_.assign(1024, {});
  }

  int size() const { return static_cast<int>(record_of_.size()); }
  size_t memory() const {
    return records_.capacity() * sizeof(uint64_t) + record_of_.capacity() * sizeof(uint32_t) +
           slots_.size() * sizeof(Slot);
  }

  // Fetches what a lookup of this hash needs first.
  void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]); }

  // Number of the walker's state, and whether it is new.
  std::pair<int, bool> insert(const Walker& walker) {
    const auto [first, last] = walker.extent();
    return insert(walker.hash(), first, walker.words() + first, last - first);
  }

  // The same for a state given by its words.
  std::pair<int, bool> insert(uint64_t hash, int first_word, const uint64_t* words, int length) {
    const uint32_t tag = static_cast<uint32_t>(hash);
    size_t slot = tag & (slots_.size() - 1);
    for (; slots_[slot].record != kNone; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].tag != tag) continue;
      const uint64_t* record = &records_[slots_[slot].record];
      if (record[0] == extent(first_word, length) && std::equal(words, words + length, record + kHeader))
        return {static_cast<int>(record[1]), false};
    }
    const int number = size();
    slots_[slot] = {tag, static_cast<uint32_t>(records_.size())};
    record_of_.push_back(slots_[slot].record);
    records_.push_back(extent(first_word, length));
    records_.push_back(number);
    records_.insert(records_.end(), words, words + length);
    if (record_of_.size() * 2 > slots_.size()) grow();
    return {number, true};
  }

  void jump(Walker& walker, int number) const {
    const uint64_t* record = &records_[record_of_[number]];
    walker.jump(static_cast<int>(record[0] >> 32), record + kHeader, static_cast<int>(record[0] & 0xffffffff));
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr int kHeader = 2;  // extent and number; the words follow

  struct Slot {
    uint32_t tag = 0, record = kNone;
  };

  static uint64_t extent(int first_word, int length) {
    return static_cast<uint64_t>(first_word) << 32 | static_cast<uint32_t>(length);
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& s : old) {
      if (s.record == kNone) continue;
      size_t slot = s.tag & (slots_.size() - 1);
      while (slots_[slot].record != kNone) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = s;
    }
  }

  std::vector<uint64_t> records_;
  std::vector<uint32_t> record_of_;  // per state
  std::vector<Slot> slots_;          // open addressing
};

}  // namespace tide
