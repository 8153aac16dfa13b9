// The states a search has met, each with a number. States of equal hash are told apart by their words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "walker.h"

namespace tide {

class StateTable {
 public:
  StateTable() { clear(); }

  void clear() {
    states_.clear();
    pool_.clear();
    table_.assign(1024, -1);
  }

  int size() const { return static_cast<int>(states_.size()); }
  size_t memory() const { return pool_.capacity() * 8 + states_.capacity() * sizeof(State) + table_.size() * 4; }

  // Number of the walker's state, and whether it is new.
  std::pair<int, bool> insert(const Walker& walker) {
    const auto [first, last] = walker.extent();
    return insert(walker.hash(), first, walker.words() + first, last - first);
  }

  // The same for a state given by its words.
  std::pair<int, bool> insert(uint64_t hash, int first_word, const uint64_t* words, int length) {
    size_t slot = hash & (table_.size() - 1);
    for (; table_[slot] >= 0; slot = (slot + 1) & (table_.size() - 1)) {
      const State& other = states_[table_[slot]];
      if (other.hash == hash && other.first_word == first_word && other.length == length &&
          std::equal(words, words + length, pool_.begin() + other.words))
        return {table_[slot], false};
    }
    const int number = size();
    table_[slot] = number;
    states_.push_back({hash, pool_.size(), first_word, length});
    pool_.insert(pool_.end(), words, words + length);
    if (states_.size() * 2 > table_.size()) grow();
    return {number, true};
  }

  void jump(Walker& walker, int number) const {
    const State& s = states_[number];
    walker.jump(s.first_word, pool_.data() + s.words, s.length);
  }

 private:
  struct State {
    uint64_t hash;
    size_t words;
    int first_word, length;
  };

  void grow() {
    table_.assign(table_.size() * 2, -1);
    for (int i = 0; i < size(); ++i) {
      size_t slot = states_[i].hash & (table_.size() - 1);
      while (table_[slot] >= 0) slot = (slot + 1) & (table_.size() - 1);
      table_[slot] = i;
    }
  }

  std::vector<State> states_;
  std::vector<uint64_t> pool_;
  std::vector<int> table_;  // open addressing: state numbers, -1 where free
};

}  // namespace tide
