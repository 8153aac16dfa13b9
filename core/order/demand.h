// Moves that end in a death or need room: what does neither runs only where such a move needs it.
//
// A macro is *plain* if, in every state in which it is the last to touch no shared storage, its end is its highest
// place, and no lower than its begin. Plain macros that end no storage only add to the footprint. So of each way to the
// end, take the first macro that is not plain or ends a storage: what ran before it and it has no need of can run after
// it (docs/proofs.md, On demand). That leaves one move for
//
//   each macro z     that is not plain, or ends a storage: it and its ancestors
//   each storage s   all that touch it, and their ancestors
//   each set of two storages or more that one macro lets go of before its last op, one of which it may instead write
//   over at its last op: likewise
//
// as long as nothing but the last macro of the move ends a storage or is not plain. Forward problems only.
#pragma once

#include <cstdint>
#include <vector>

#include "order/walker.h"

namespace tide {

struct Move {
  std::vector<int> macros;
  Outcome outcome;  // of all of them, one after the other
};

class Demand {
 public:
  // Beyond these a state takes seconds, and what each macro needs more than 32 MiB.
  static constexpr int kMostMacros = 1 << 14;

  explicit Demand(const Problem& problem);

  // The moves worth making from the walker's state. False: there are too many to list, and any macro that is ready is
  // to be tried.
  bool list(Walker& walker, std::vector<Move>& moves);

 private:
  enum State : char { kOut, kQuiet, kHead };  // kQuiet: it and all it needs are plain, and end nothing together

  Word* needs(int m) { return &needs_[static_cast<size_t>(m) * words_]; }
  void sort_out(const Walker& walker, int m);
  bool ends_any(const Walker& walker, const Word* members, int but);
  bool gather(const Walker& walker, int storage, int last, Word* members);
  bool list_sets(Walker& walker, int last, std::vector<Move>& moves);
  std::vector<int> worth_waiting_for(const Walker& walker, const Rows& wants, int last);
  void list_storage(Walker& walker, int storage, std::vector<Move>& moves);
  void list_rest(Walker& walker, std::vector<Move>& moves);
  Move move_of(Walker& walker, const Word* members, int last) const;

  const Problem& p_;
  const size_t words_;
  std::vector<char> plain_;
  Rows early_, over_;           // per macro, the storages that it may finish before, or write over at, its last op
  std::vector<Word> needs_;     // per macro, itself and what has not run of its ancestors
  std::vector<State> state_;    // per macro, in the state at hand
  std::vector<int> seen_;       // per storage, its members counted ...
  std::vector<int64_t> stamp_;  // ... when `now_` was this
  int64_t now_ = 0;
  std::vector<Word> members_;
};

}  // namespace tide
