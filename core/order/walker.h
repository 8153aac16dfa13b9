// A state of a problem that can be walked: run a macro, take it back, jump to another state.
//
// A downset is a set of macro numbers. It is stored as `StateKey`: the 64-bit words of its bitset from the first word
// that is not full to the last that is not empty, so that a state costs memory only where it is unusual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bits.h"
#include "base/hash.h"
#include "order/problem.h"

namespace tide {

struct StateKey {
  int first_word = 0;
  std::vector<Word> words;
};

class Walker {
 public:
  explicit Walker(const Problem& problem);

  const Problem& problem() const { return p_; }
  const std::vector<int>& ready() const { return ready_; }
  bool is_ready(int m) const { return place_[m] >= 0; }
  int count(int s) const { return count_[s]; }
  bool has_run(int m) const { return ran_.has(m); }
  int done() const { return done_; }
  uint64_t hash() const { return hash_; }
  // Nanoseconds of work, about: macros that were run and taken back, and looked at.
  int64_t work() const { return work_; }
  void looked_at(size_t macros) { work_ += kLook * static_cast<int64_t>(macros); }
  Outcome outcome(int m) const {
    return p_.run(m, [this](int s) { return count_[s]; });
  }

  void run(int m);
  void take_back(int m);
  // Appends what may have become cheaper to run since m ran: the new ready macros, and those next to m.
  void neighbours(int m, std::vector<int>& out) const;

  StateKey key() const;
  // Words of the current key, without copying: first word and one past the last.
  std::pair<int, int> extent() const { return bits::extent(ran_.data(), ran_.words()); }
  const Word* words() const { return ran_.data(); }
  // Jump to the state with these words.
  void jump(int first_word, const Word* words, int length);

 private:
  static constexpr int64_t kRun = 80, kLook = 50;  // nanoseconds

  void enter(int m);
  void leave(int m);

  const Problem& p_;
  int64_t work_ = 0;
  std::vector<int> count_;    // per shared storage, macros run that touch it
  std::vector<int> rest_;     // per shared storage, exclusive-or of the macros that touch it and have not run
  std::vector<int> missing_;  // per macro, predecessors that have not run
  std::vector<int> ready_, place_;
  BitSet ran_;
  int done_ = 0;
  uint64_t hash_ = 0;  // of `ran_`
};

// Runs whatever the one-op rule allows within `budget` (docs/proofs.md, Theorem 1): ready macros that do not raise
// f and whose hill fits. The resulting state does not depend on the order in which they are tried.
class Closure {
 public:
  explicit Closure(Walker& walker) : walker_(walker) {}

  // Puts the macros in `pending` and, as f falls, the blocked ones to the test. Appends what ran to `ran`.
  // Returns the new f; `highest` becomes the largest hill on the way.
  Bytes close(Bytes f, Bytes budget, std::vector<int>& pending, std::vector<int>& ran, Bytes& highest);
  // Macros that must be retried when f falls.
  std::vector<int> blocked;

 private:
  Walker& walker_;
};

}  // namespace tide
