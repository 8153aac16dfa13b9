// The searches that ask about budgets, in turns counted in states.
//
// From the end the search is usually far quicker (docs/proofs.md, From the end), so those engines get most states; the
// others are there for when it is not.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "order/incumbent.h"
#include "order/reduced.h"
#include "order/search.h"

namespace tide {

// Asks one question after another of its kind.
struct Engine {
  bool from_the_end;
  bool nested;
  bool halfway;            // asks about the middle of the gap instead of just below the best
  bool on_demand = false;  // its moves are those of `Demand`
  std::unique_ptr<Search> search = nullptr;
  std::shared_ptr<const Reduced> reduced = nullptr;
  Bytes budget = 0;
  Answer answer = Answer::kUnknown;
  int64_t counted = 0, worked = 0;  // of the search: states and work that were added to the result

  bool quick() const { return from_the_end && !nested; }
};

class Engines {
 public:
  explicit Engines(Incumbent& incumbent);

  bool none() const { return engines_.empty(); }
  // The one that gets most of a slice; null if it is switched off. Where the gap is wide, its middle is asked about
  // first: a lower budget is refuted in far fewer states, and a higher one met in fewer.
  Engine* leader(bool wide);

  // Gives a new search to those whose budget the bounds have overtaken, or to all. `on_demand`: from now on those from
  // the start make moves on demand, and get more states. Where nothing searches from the end they do from the first.
  void prepare(const Reductions& reductions, bool on_demand);
  void begin_again();
  // One engine's turn, or one of each but the leader.
  void turn(Engine& engine, int64_t slice, bool wide, const std::function<bool()>& stop) const;
  void turn_others(int64_t slice, bool wide, const std::function<bool()>& stop);
  // Whether nothing is left to be asked once this engine's answer is taken up.
  bool decides(const Engine& engine) const;
  // Takes up what an engine found, or each of them. False if it, or all, can do no more for want of memory.
  bool take_up(Engine& engine);
  bool take_up();
  // Whether one that makes moves on demand answered when all were last taken up: the next question is likely as quick.
  bool answered_on_demand() const { return answered_on_demand_; }

 private:
  static bool leads(const Engine& engine, bool wide) { return engine.quick() && engine.halfway == wide; }
  void prepare(Engine& engine, const Reductions& reductions) const;
  int64_t share(const Engine& engine, bool wide) const;

  Incumbent& incumbent_;
  std::vector<Engine> engines_;
  bool answered_on_demand_ = false;       // when all were last taken up
  bool demand_answers_ = false;           // at any time, or nothing else searches
  Bytes aim_ = 2;                         // the halfway engines ask about one part in so many of the gap
  int64_t longest_refutation_ = 100'000;  // states of the longest one that ended
};

}  // namespace tide
