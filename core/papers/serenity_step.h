// One segment of SERENITY's problem, as bitsets; and the memo of one search step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bits.h"
#include "base/model.h"

namespace tide::serenity {

// The nodes of a segment are 0 .. n-1 in the order of the segment. A node is an op, or a sequence: ops that run one
// right after the other, the first of which has the largest footprint and alone reads what others may read as well.
// What ran before the segment and what comes after it is settled, so a storage may be live from before or beyond.
struct Segment {
  struct Touched {
    Bytes size;
    bool may_begin;  // comes to life with the first node here that touches it
    bool may_die;    // dies with the last node here that touches it
    Mask users;
  };
  struct Saving {
    Bytes bytes;
    Mask users;
  };
  int n = 0, words = 0;
  Bytes start = 0;  // live before the first node
  std::vector<Touched> storages;
  std::vector<std::vector<int>> touched;  // per node, in `storages`: by its first op
  std::vector<std::vector<int>> later;    // per node: by its other ops only
  std::vector<std::vector<Saving>> savings;
  std::vector<Bytes> workspace;  // of the first ops, as the savings
  std::vector<Mask> preds;
  std::vector<std::vector<int>> succs;

  // Largest footprint of node u when the nodes in `run` have run, u already among them, and what is live after it.
  // `before` are the words without u.
  struct Move {
    Bytes hill, after;
  };
  Move move(int u, Bytes live, const Word* before, const Word* run) const {
    Bytes begun = 0, died = 0, saving = 0, more = 0;
    for (int s : touched[u]) {
      const Touched& t = storages[s];
      if (t.may_begin && !t.users.meets(before)) begun += t.size;
      if (t.may_die && t.users.inside(run)) died += t.size;
    }
    for (int s : later[u]) {
      const Touched& t = storages[s];
      if (t.may_begin && !t.users.meets(before)) more += t.size;
      if (t.may_die && t.users.inside(run)) died += t.size;
    }
    for (const Saving& s : savings[u])
      if (s.bytes > saving && s.users.inside(run)) saving = s.bytes;
    return {live + begun + workspace[u] - saving, live + begun + more - died};
  }
};

// M_i. Entry e has `words` words of what has run, then as many of what may run next.
class SearchStep {
 public:
  SearchStep(int words, size_t& used) : words_(words), used_(used) {}
  ~SearchStep() { used_ -= bytes(); }
  SearchStep(const SearchStep&) = delete;
  SearchStep& operator=(const SearchStep&) = delete;

  struct Entry {
    uint64_t hash;
    Bytes live, peak;
  };

  int size() const { return static_cast<int>(entries_.size()); }
  const Entry& operator[](int e) const { return entries_[e]; }
  Entry& operator[](int e) { return entries_[e]; }
  const Word* run(int e) const { return sets_.data() + 2 * size_t(e) * words_; }
  Word* ready(int e) { return sets_.data() + (2 * size_t(e) + 1) * words_; }
  const Word* ready(int e) const { return sets_.data() + (2 * size_t(e) + 1) * words_; }

  // Entry with these words, or -1.
  int find(uint64_t hash, const Word* run) const {
    if (table_.empty()) return -1;
    for (size_t slot = hash & (table_.size() - 1); table_[slot] >= 0; slot = (slot + 1) & (table_.size() - 1)) {
      const int e = table_[slot];
      if (entries_[e].hash == hash && std::equal(run, run + words_, this->run(e))) return e;
    }
    return -1;
  }

  // Whether one more entry fits in `limit` bytes of all steps and links together, the copying included.
  bool reserve(size_t limit) {
    if (size() < capacity_) return true;
    const int wanted = capacity_ ? capacity_ * 2 : 8;
    const size_t each = sizeof(Entry) + 16 * size_t(words_) + 8;
    if (used_ + wanted * each > limit || wanted < 0) return false;
    const size_t old = bytes();
    capacity_ = wanted;
    entries_.reserve(wanted);
    sets_.reserve(2 * size_t(wanted) * words_);
    table_.assign(2 * size_t(wanted), -1);
    for (int e = 0; e < size(); ++e) enter(e);
    used_ += bytes() - old;
    return true;
  }

  // Adds an entry with nothing ready yet; `reserve` was true. Returns its number.
  int add(uint64_t hash, Bytes live, Bytes peak, const Word* run, const Word* ready) {
    entries_.push_back({hash, live, peak});
    sets_.insert(sets_.end(), run, run + words_);
    sets_.insert(sets_.end(), ready, ready + words_);
    enter(size() - 1);
    return size() - 1;
  }

 private:
  void enter(int e) {
    size_t slot = entries_[e].hash & (table_.size() - 1);
    while (table_[slot] >= 0) slot = (slot + 1) & (table_.size() - 1);
    table_[slot] = e;
  }
  size_t bytes() const { return capacity_ * (sizeof(Entry) + 16 * size_t(words_) + 8); }

  const int words_;
  size_t& used_;
  int capacity_ = 0;
  std::vector<Entry> entries_;
  std::vector<Word> sets_;
  std::vector<int> table_;
};

}  // namespace tide::serenity
