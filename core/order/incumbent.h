// What the exact scheduler knows so far: the best order, the bound below it, and whether to go on.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <vector>

#include "order/bounds.h"
#include "order/solve.h"

namespace tide {

class Incumbent {
 public:
  Incumbent(const Model& model, const Options& options);

  const Model& model() const { return model_; }
  const Options& options() const { return options_; }
  Bytes peak() const { return result.peak; }
  Bytes lower_bound() const { return result.lower_bound; }
  Bytes unit() const { return unit_; }  // every footprint is a multiple of it

  // Whether there is nothing left to ask, or nothing left to ask with.
  bool finished();
  // Whether to stop; reports now and then. `out_of_time` is for the thread that began, `over` for any other.
  bool out_of_time();
  bool over() const { return halted_ || seconds() >= options_.seconds; }

  // Takes an order if it is better than the best.
  void offer(const std::vector<int>& order);
  // Makes up to so many cuts, as long as they help.
  void raise_bound(int cuts);
  // Takes note of cuts that were made, and of their work.
  void add_cuts(int64_t cuts) {
    result.cuts += cuts;
    result.work += cuts * kCutOfOp * model_.n;
  }
  // No order has a peak of `budget` or less, and those above it begin at `next`.
  void refute(Bytes budget, Bytes next, Direction direction, int64_t states);
  void out_of_memory() {
    if (!cut_short_) cut_short_ = Stopped::kMemory;
  }

  // The budget to ask about next: just below the best.
  Bytes just_below() const { return asks_between() && options_.until_decided ? options_.budget : peak() - unit_; }
  // The same at one part in `parts` of the gap, from the bound.
  Bytes in_the_gap(Bytes parts) const;
  // Whether an answer leaves nothing to be asked.
  bool decided_by_yes(Bytes budget) const {
    return options_.budget >= 0 && options_.until_decided && budget <= options_.budget;
  }
  bool decided_by_no(Bytes budget) const;

  // Makes the end known. Nothing is called after it.
  void conclude();

  Result result;  // those who count add to its counters themselves

 private:
  static constexpr int64_t kCutOfOp = 250;  // nanoseconds of a cut, for each op

  using Clock = std::chrono::steady_clock;

  double seconds() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }
  void note() { result.trace.push_back({seconds(), peak(), std::min(lower_bound(), peak())}); }
  // Whether the budget that the caller asks about lies between the bounds.
  bool asks_between() const { return options_.budget >= lower_bound() && options_.budget < peak(); }

  const Model& model_;
  const Options& options_;
  const Clock::time_point begun_;
  LazyBound bound_;
  const Bytes unit_;
  std::optional<Stopped> cut_short_;
  double reported_ = 0;
  std::atomic<bool> halted_ = false;
};

}  // namespace tide
