// Is there an order of peak at most `budget`? Searches over downsets, with commits.
//
// Three rules cut them down (docs/proofs.md, Theorem 1), each a switch:
//   closure      a ready macro that does not raise f and fits is run at once
//   safe moves   if a move and its closure end no higher than they began, and nothing else could have begun, it is
//                the only move worth making
//   commits      once any state not above the root has been reached, the lowest state on the way becomes the root
#pragma once

#include <functional>
#include <limits>
#include <memory>

#include "order/demand.h"
#include "order/symmetry.h"
#include "order/walker.h"

namespace tide {

struct SearchRules {
  bool closure = true, safe_moves = true, commits = true;
  bool demand = true;  // forward: what neither ends a storage nor needs room runs where such a macro needs it
};

enum class Answer { kUnknown, kYes, kNo, kMemory };

// A search that can be continued: run() until it answers or has expanded `slice` more states.
class Search {
 public:
  virtual ~Search() = default;
  virtual Answer run(int64_t slice, const std::function<bool()>& stop) = 0;
  // After kYes: the macros in the problem's direction.
  const std::vector<int>& order() const { return order_; }
  // After kNo: no order has a peak below this (more than the budget).
  Bytes next() const { return next_; }
  int64_t states() const { return states_; }
  virtual int64_t work() const = 0;  // nanoseconds, about
  size_t memory() const { return memory_; }

 protected:
  std::vector<int> order_;
  Bytes next_ = std::numeric_limits<Bytes>::max();
  int64_t states_ = 0;
  size_t memory_ = 0;
};

// Expands the state of least f first. With symmetries, one state stands for all its images.
std::unique_ptr<Search> best_first(const Problem& problem, Bytes budget, const SearchRules& rules, size_t memory_bytes,
                                   const Symmetry* symmetry);
// Goes deep, and commits within each state's own subtree: a state is left for the first one not above it.
std::unique_ptr<Search> nested_commit(const Problem& problem, Bytes budget, const SearchRules& rules,
                                      size_t memory_bytes);

// What the two searches share: making moves from the walker's state.
class Mover {
 public:
  Mover(const Problem& problem, Bytes budget, const SearchRules& rules)
      : rules(rules), budget(budget), walker(problem), closure_(walker) {
    if (rules.demand && !problem.reversed && problem.n <= Demand::kMostMacros)
      demand_ = std::make_unique<Demand>(problem);
  }

  // Everything the one-op rule allows in the walker's state, appended to `ran`. Returns the new f.
  Bytes close_all(Bytes f, std::vector<int>& ran);
  // Lists the moves from the walker's state, whose transient footprint is f: the ready macros, or what `Demand` makes
  // of them. Returns the least hill that exceeds the budget.
  Bytes look_around(Bytes f);
  // Makes the k-th move and closes; `ran` lists what ran. Returns the new f.
  Bytes make_move(Bytes f, size_t k);
  void take_back_move();
  // Whether the last move, from f to `after`, leads to a lowest state in between, so that no other is worth making.
  bool is_safe(Bytes f, Bytes after);
  // Whether it is time to ask if the search is to stop: each so many turns, and each turn where one may take long.
  bool may_stop(int64_t turn) const { return demand_ || (turn & 63) == 0; }

  const SearchRules rules;
  const Bytes budget;
  Walker walker;
  std::vector<Outcome> outcomes;  // of each move
  std::vector<int> ran;

 private:
  // Whether everything that ran in the last move descends from its first macro.
  bool began_alone() const;

  Closure closure_;
  std::unique_ptr<Demand> demand_;
  bool on_demand_ = false;  // whether the moves are those of `moves_`, not the ready macros
  std::vector<Move> moves_;
  size_t length_ = 1;       // macros of the last move, without what the closure added
  std::vector<int> ready_;  // ascending
  std::vector<int> blocked_, pending_;
};

// The downset of least f between the walker's state and that state with all of `extra` run.
struct Lowest {
  Bytes change;              // its f, less that of the walker's state
  std::vector<char> within;  // per member of extra
};
Lowest lowest_between(const Walker& walker, const std::vector<int>& extra);

// The repair rule. `path` leads from the walker's state, of transient footprint `f`, to one of `f_end` <= f. Cuts it
// down to a path to the lowest state in between, and returns that state's f. The walker stays where it is.
Bytes repair(const Walker& walker, Bytes f, Bytes f_end, std::vector<int>& path);

}  // namespace tide
