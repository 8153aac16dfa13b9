// A sequence of runs of ops, some of them repeated, and the bytes live at each.
//
//   slots    .  a  .  .  b  .  c  .  a  .  .  d  .       a op may run in any free slot; between neighbours there are
//   x of a      ^---------^     |    ^--------^          some free ones, or all runs are spread out anew
//   y of c                      ^-------------^
//
// A run of an op makes its values anew. Who reads a value takes it from the last run before; it lives from that run to
// its last reader before the next one. Putting a run in and taking one away changes a few such ranges: for each
// value of the op a binary search for the events around the slot, and an addition to a range of `Peaks`.
// A slot without a run never holds more than its neighbours, so that it need not be told apart.
//
// A value that is stored and loaded is not there in between, a hole in its life: the store is one more reader, the load
// one more run that makes it.
//
//   slots    .  a  .  S  .  c  .  L  .  .  d  .          S: the store has ended, and no run goes on before; L: the load
//   x of a      ^-----^           ^--------^             begins, and d waits for its end
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "sequence/peaks.h"
#include "sequence/problem.h"

namespace tide {

class Timeline {
 public:
  // `order`: ops, each as often as it runs, each behind makers of all it reads.
  Timeline(const SequenceProblem& problem, const std::vector<int>& order);

  const SequenceProblem& problem() const { return *problem_; }
  // Of all runs; with transfers, until the last one has ended.
  Cost cost() const { return problem_->transfers() ? clock(nullptr) : cost_; }
  // By slots of runs: when ops have got so far before and behind it, and until when either engine is busy.
  struct Beat {
    Cost before = 0, after = 0, storing = 0, loading = 0;
  };
  Cost clock(std::vector<Beat>* beats) const;
  Bytes peak() const { return peaks_.most(); }
  // The first run with the most bytes: before all runs there is no more than at the first one.
  int highest() const { return std::max(peaks_.highest(), begin()); }
  Bytes at(int slot) const { return peaks_.at(slot); }
  int runs() const { return runs_; }
  std::vector<int> order() const;

  int op(int slot) const { return op_[slot]; }  // -1: free
  int begin() const { return next_[0]; }
  int end() const { return end_; }
  int next(int slot) const { return next_[slot]; }          // of an occupied slot: the run after it
  int previous(int slot) const { return previous_[slot]; }  // the run before it
  const std::vector<int>& runs_of(int op) const { return slots_of_[op]; }
  // Slots of the runs that read a value, ascending; the end of the line where it is kept.
  const std::vector<int>& readers(int value) const { return events_[value]; }
  // Slots of the runs that make a value, loads too.
  const std::vector<int>& made(int value) const { return made_[value]; }

  // The run, or the start of the line, before a free slot.
  int before(int slot) const {
    while (slot > kStart && op_[slot] < 0) --slot;
    return slot;
  }

  // The run that a value comes from at a slot; -1 if there is none.
  int source(int value, int slot) const;
  // The last slot at which what that run made is there.
  int last(int value, int source) const;

  // Whether an op whose runs must come before this slot has run: what the op reads is changed by then.
  bool barred(int op, int slot) const;
  // Whether everything that an op reads is there, or can be, at a slot.
  bool can_put(int op, int slot) const;
  // Whether the op runs elsewhere, and its readers are served from there.
  bool can_take(int slot) const;
  // Slots (first, second), both excluded, between which a run can be moved, its readers being as they are.
  std::pair<int, int> window(int slot) const;

  // Put a run of an op in a free slot, whose neighbour before is named.
  void put(int op, int slot, int before);
  void take(int slot);
  // The run of `from` moved to a free slot.
  void move(int from, int to, int before) {
    const int op = op_[from];
    put(op, to, before);
    take(from);
  }

  // Changes since a mark can be taken back, unless the slots were spread since.
  size_t mark() const { return changes_.size(); }
  void undo(size_t mark);
  void forget() { changes_.clear(); }
  // So many free slots right before an occupied one (or the end) and behind the one before it.
  int room(int slot) const { return slot - previous_[slot] - 1; }
  // All runs far apart again, with more free slots before one of them (or the end); slots are others afterwards, and
  // nothing can be taken back.
  void spread(int roomy = -1);
  int64_t spreads() const { return spreads_; }

 private:
  struct Done {
    int op, slot;
    int before;  // the slot before a run that was taken away; -1: it was put in
  };
  void build(const std::vector<int>& order, int roomy);
  // The run that a value comes from at a slot, and the next one that makes it anew, or behind the end.
  std::pair<int, int> around(int value, int slot) const;
  void add(int op, int slot);
  void remove(int op, int slot);
  void link(int slot, int before);
  void unlink(int slot);

  const SequenceProblem* problem_;
  int end_ = 0;
  int runs_ = 0;
  Cost cost_ = 0;
  int64_t spreads_ = 0;
  Peaks peaks_;
  std::vector<int> op_, next_, previous_;
  std::vector<std::vector<int>> slots_of_;   // per op
  std::vector<std::vector<int>> made_;       // per value
  std::vector<std::vector<int>> events_;     // per value
  mutable std::vector<Cost> there_;          // per value, when it is
  std::vector<std::vector<int>> followers_;  // per op, those that are to come after it
  std::vector<std::vector<int>> earlier_;    // per op, those all of whose runs are to come before it
  std::vector<Done> changes_;
  static constexpr int kStart = 0;  // the slot before all runs, where what is there from the start begins
};

}  // namespace tide
