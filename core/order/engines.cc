#include "order/engines.h"

#include <algorithm>
#include <utility>

#include "order/state_table.h"

namespace tide {

namespace {

// One in how many states of a slice an engine gets: the product of those that it is.
constexpr int64_t kForward = 8, kNested = 8, kOfOtherAim = 4;
// The same for searches on demand, once one of them has answered. A state of theirs takes several times as long.
constexpr int64_t kForwardOnDemand = 2, kNestedOnDemand = 2;
// A quick engine may use a third of the memory, and there are two; the other six share the rest.
constexpr size_t kMemoryOfQuick = 3, kMemoryOfOther = 3 * 6;
// A question that takes so many times the states of the longest refutation asks too much.
constexpr int64_t kPatience = 3;
constexpr Bytes kLeastAim = 64;  // the bound is approached no further than by one part in so many of the gap

}  // namespace

Engines::Engines(Incumbent& incumbent) : incumbent_(incumbent) {
  const Switches& on = incumbent.options().switches;
  demand_answers_ = !on.reversed;  // nothing else does
  for (const bool halfway : {false, true})
    for (const bool from_the_end : {true, false})
      for (const bool nested : {false, true})
        if ((from_the_end ? on.reversed : on.forward) && (nested ? on.nested : on.best_first))
          engines_.push_back({from_the_end, nested, halfway, on.search.demand && !on.reversed && !from_the_end});
}

Engine* Engines::leader(bool wide) {
  const auto it = std::find_if(engines_.begin(), engines_.end(), [&](const Engine& e) { return leads(e, wide); });
  return it == engines_.end() ? nullptr : &*it;
}

void Engines::begin_again() {
  for (Engine& engine : engines_) engine.search.reset();
}

void Engines::prepare(const Reductions& reductions, bool on_demand) {
  for (Engine& engine : engines_) {
    if (on_demand && !engine.from_the_end && !engine.on_demand) {
      engine.on_demand = true;
      engine.search.reset();
    }
    prepare(engine, reductions);
  }
}

void Engines::prepare(Engine& engine, const Reductions& reductions) const {
  if (engine.search && (engine.budget >= incumbent_.peak() || engine.budget < incumbent_.lower_bound()))
    engine.search.reset();
  if (engine.search) return;
  const Options& options = incumbent_.options();
  engine.budget = engine.halfway ? incumbent_.in_the_gap(aim_) : incumbent_.just_below();
  engine.reduced = reductions.within(engine.budget);
  const Problem& p = engine.reduced->problem(engine.from_the_end);
  const size_t memory =
      std::min(options.memory_bytes, StateTable::kMostMemory) / (engine.quick() ? kMemoryOfQuick : kMemoryOfOther);
  SearchRules rules = options.switches.search;
  rules.demand = rules.demand && engine.on_demand;
  engine.search = engine.nested
                      ? nested_commit(p, engine.budget, rules, memory)
                      : best_first(p, engine.budget, rules, memory, engine.reduced->symmetry(engine.from_the_end));
  engine.counted = engine.worked = 0;
}

int64_t Engines::share(const Engine& engine, bool wide) const {
  const bool favoured = engine.on_demand && demand_answers_;
  const int64_t direction = engine.from_the_end ? 1 : favoured ? kForwardOnDemand : kForward;
  const int64_t kind = !engine.nested ? 1 : favoured ? kNestedOnDemand : kNested;
  return direction * kind * (engine.halfway == wide ? 1 : kOfOtherAim);
}

void Engines::turn(Engine& engine, int64_t slice, bool wide, const std::function<bool()>& stop) const {
  engine.answer = engine.search->run(std::max<int64_t>(1, slice / share(engine, wide)), stop);
}

void Engines::turn_others(int64_t slice, bool wide, const std::function<bool()>& stop) {
  for (Engine& engine : engines_)
    if (!leads(engine, wide) && !stop()) turn(engine, slice, wide, stop);
}

bool Engines::decides(const Engine& engine) const {
  if (engine.answer == Answer::kNo) return incumbent_.decided_by_no(engine.budget);
  return engine.answer == Answer::kYes && incumbent_.decided_by_yes(engine.budget);
}

bool Engines::take_up() {
  bool any = false;
  answered_on_demand_ = false;
  for (Engine& engine : engines_) any |= take_up(engine);
  return any;
}

bool Engines::take_up(Engine& engine) {
  if (!engine.search) return true;
  Result& result = incumbent_.result;
  result.states += engine.search->states() - engine.counted;
  engine.counted = engine.search->states();
  result.work += engine.search->work() - engine.worked;
  engine.worked = engine.search->work();
  result.memory_bytes = std::max(result.memory_bytes, engine.search->memory());
  const Answer answer = std::exchange(engine.answer, Answer::kUnknown);
  if (answer == Answer::kMemory) return false;
  answered_on_demand_ |= answer != Answer::kUnknown && engine.on_demand;
  demand_answers_ |= answered_on_demand_;
  if (answer == Answer::kYes) {
    incumbent_.offer(engine.reduced->order(engine.from_the_end, engine.search->order()));
    engine.search.reset();
  } else if (answer == Answer::kNo) {
    // Within a restriction, budgets above its own are not excluded, however high the least hill left out.
    const Bytes next = engine.reduced->only_within == kAnyBudget ? engine.search->next() : engine.budget;
    const Direction direction = engine.from_the_end ? Direction::kReversed : Direction::kForward;
    incumbent_.refute(engine.budget, next, direction, engine.search->states());
    longest_refutation_ = std::max(longest_refutation_, engine.search->states());
    engine.search.reset();
  } else if (engine.halfway && engine.quick() && engine.search->states() > kPatience * longest_refutation_) {
    // The middle asks too much: a budget nearer to the bound falls sooner.
    engine.search.reset();
    aim_ = std::min<Bytes>(2 * aim_, kLeastAim);
  }
  return true;
}

}  // namespace tide
