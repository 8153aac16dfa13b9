// Sets of small numbers, a bit each: element i is bit i % 64 of word i / 64.
//
// The functions are for sets that lie in rows of some larger array, as those of the searches do; `BitSet` is one by
// itself, and `Mask` one of few elements that is only compared with others.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace tide {

using Word = uint64_t;

namespace bits {

inline constexpr int kPerWord = 64;
inline constexpr Word kFull = ~Word{0};

constexpr int word_of(int i) { return i >> 6; }
constexpr Word bit_of(int i) { return Word{1} << (i & 63); }
// Words of a set of numbers below n.
constexpr int words_for(int n) { return (n + kPerWord - 1) / kPerWord; }

inline bool has(const Word* set, int i) { return set[word_of(i)] >> (i & 63) & 1; }
inline void put(Word* set, int i) { set[word_of(i)] |= bit_of(i); }
inline void drop(Word* set, int i) { set[word_of(i)] &= ~bit_of(i); }

// Calls `visit` with each element of word number `word`, ascending.
template <class Visit>
void each_in(int word, Word left, Visit visit) {
  for (; left; left &= left - 1) visit(word * kPerWord + std::countr_zero(left));
}

// First word that is not full, and one past the last that is not empty (or that again, if there is none such).
inline std::pair<int, int> extent(const Word* set, int words) {
  int first = 0, last = words;
  while (first < last && set[first] == kFull) ++first;
  while (last > first && set[last - 1] == 0) --last;
  return {first, last};
}

}  // namespace bits

// A set of numbers below some n.
class BitSet {
 public:
  BitSet() = default;
  explicit BitSet(int n) : words_(bits::words_for(n), 0) {}

  bool has(int i) const { return bits::has(words_.data(), i); }
  void put(int i) { bits::put(words_.data(), i); }
  void drop(int i) { bits::drop(words_.data(), i); }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }
  // Takes in another set of numbers below the same n.
  void join(const BitSet& other) {
    for (size_t k = 0; k < words_.size(); ++k) words_[k] |= other.words_[k];
  }
  // Becomes a row of as many words elsewhere.
  void assign(const Word* row) { std::copy_n(row, words_.size(), words_.begin()); }

  int words() const { return static_cast<int>(words_.size()); }
  Word* data() { return words_.data(); }
  const Word* data() const { return words_.data(); }

 private:
  std::vector<Word> words_;
};

// A set as the words of it that are not empty.
class Mask {
 public:
  Mask() = default;
  explicit Mask(const std::vector<int>& ascending) {
    for (int i : ascending) {
      if (parts_.empty() || parts_.back().word != bits::word_of(i)) parts_.push_back({bits::word_of(i), 0});
      parts_.back().bits |= bits::bit_of(i);
    }
  }

  bool empty() const { return parts_.empty(); }
  // Whether they have an element in common.
  bool meets(const Word* set) const {
    return std::any_of(parts_.begin(), parts_.end(), [&](const Part& p) { return set[p.word] & p.bits; });
  }
  bool inside(const Word* set) const {
    return std::all_of(parts_.begin(), parts_.end(), [&](const Part& p) { return (p.bits & ~set[p.word]) == 0; });
  }

 private:
  struct Part {
    int word;
    Word bits;
  };
  std::vector<Part> parts_;
};

}  // namespace tide
