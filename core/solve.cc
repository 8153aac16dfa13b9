#include "solve.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "beam.h"
#include "bounds.h"

namespace tide {

namespace {

constexpr size_t kReachMemory = size_t{256} << 20;

// Every footprint is a multiple of this.
Bytes unit_of(const Model& model) {
  Bytes unit = 0;
  for (const Storage& s : model.storages) unit = std::gcd(unit, s.size);
  for (Bytes w : model.workspace) unit = std::gcd(unit, w);
  for (const auto& row : model.overwrites)
    for (const Overwrite& o : row) unit = std::gcd(unit, o.saving);
  return std::max<Bytes>(unit, 1);
}

class Solver {
 public:
  Solver(const Model& model, const Options& options)
      : model_(model), options_(options), begun_(Clock::now()), bound_(model), unit_(unit_of(model)) {}

  Result solve(const std::vector<int>& start) {
    offer(start);
    if (model_.n > 0) {
      reduce();
      if (!finished()) approach();
      if (!finished()) search();
    }
    conclude();
    return result_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  double seconds() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

  bool out_of_time() {
    if (halted_) return true;
    const double now = seconds();
    if (now >= options_.seconds) {
      halted_ = true;
      result_.stopped = "time";
    } else if (options_.report && now - reported_ > 0.05) {
      reported_ = now;
      if (options_.report(result_.peak, result_.lower_bound, now)) {
        halted_ = true;
        result_.stopped = "interrupt";
      }
    }
    return halted_;
  }

  bool finished() {
    if (result_.lower_bound >= result_.peak) return true;
    if (options_.budget_only && options_.budget >= 0 &&
        (result_.peak <= options_.budget || result_.lower_bound > options_.budget))
      return true;
    return out_of_time();
  }

  // Takes an order if it is better than the best.
  void offer(const std::vector<int>& order) {
    const Bytes value = peak(model_, order);
    if (options_.switches.cut) bound_.see(order);
    if (result_.order.size() == order.size() && value >= result_.peak && model_.n > 0) return;
    result_.order = order;
    result_.peak = value;
  }

  void offer_macros(const Problem& p, const std::vector<int>& macros) {
    std::vector<int> order;
    order.reserve(model_.n);
    for (int m : macros) order.insert(order.end(), p.chains[m].begin(), p.chains[m].end());
    if (p.reversed) std::reverse(order.begin(), order.end());
    offer(order);
  }

  void reduce() {
    raise_bound(64);
    if (finished()) return;
    const Chains chains = fuse(model_, options_.switches.fusion, kReachMemory);
    const Reach reach(chain_preds(model_, chains), kReachMemory);
    forward_ = compile(model_, chains, reach, false);
    reversed_ = compile(model_, chains, reach, true);
    result_.reduced_ops = forward_.n;
    if (!options_.switches.beams) {
      // Even without beams the fused problem must have an order to begin with.
      widen(1);
    }
  }

  void raise_bound(int cuts) {
    if (!options_.switches.cut) return;
    for (int made = 0; made < cuts && !finished(); made += 8) {
      const int done = bound_.raise(8, result_.peak);
      result_.cuts += done;
      if (bound_.value() > result_.lower_bound) {
        result_.lower_bound = bound_.value();
        result_.proof = Result::kCut;
      }
      result_.cut_op = bound_.op();
      result_.cut_bound = bound_.value();
      if (done < 8) break;
    }
  }

  void widen(int width) {
    for (const Problem* p : {&reversed_, &forward_}) {
      if (finished()) return;
      const BeamResult found =
          beam(*p, width, result_.lower_bound, result_.peak, options_.seed, [this] { return out_of_time(); });
      result_.beam_states += found.states;
      if (!found.macros.empty()) offer_macros(*p, found.macros);
    }
  }

  void approach() {
    if (!options_.switches.beams) return;
    for (int width : {1, 4, 32}) {
      if (width > 1 && static_cast<int64_t>(width) * forward_.n > 200000) break;
      widen(width);
      if (finished()) return;
      raise_bound(width == 1 ? 64 : 16);
      if (finished()) return;
    }
  }

  struct Engine {
    const Problem* problem;
    bool nested;
    bool halfway;  // asks about the middle of the gap instead of just below the best
    std::unique_ptr<Search> search;
    Bytes budget = 0;
  };

  // Lets the engines take turns, counted in states, until the bounds meet.
  void search() {
    std::vector<Engine> engines;
    const Switches& on = options_.switches;
    for (const bool halfway : {false, true}) {
      if (on.best_first && on.reversed) engines.push_back({&reversed_, false, halfway, nullptr});
      if (on.nested && on.reversed) engines.push_back({&reversed_, true, halfway, nullptr});
      if (on.best_first && on.forward) engines.push_back({&forward_, false, halfway, nullptr});
      if (on.nested && on.forward) engines.push_back({&forward_, true, halfway, nullptr});
    }
    int64_t slice = options_.first_slice;
    int width = 64;
    while (!finished() && !engines.empty()) {
      bool any = false;
      for (Engine& engine : engines) {
        if (finished()) return;
        any |= take_turn(engine, engine.halfway ? slice / 4 : slice);
      }
      if (!any) {
        result_.stopped = "memory";
        return;
      }
      slice = slice * 5 / 2;
      if (on.beams && static_cast<int64_t>(width) * forward_.n <= 2000000) {
        widen(width);
        width *= 2;
        raise_bound(64);
      }
    }
  }

  Bytes target(bool halfway) const {
    if (options_.budget >= result_.lower_bound && options_.budget < result_.peak && (options_.budget_only || halfway))
      return options_.budget;
    if (!halfway) return result_.peak - unit_;
    const Bytes low = result_.lower_bound, middle = low + (result_.peak - low) / 2;
    return std::min(middle / unit_ * unit_, result_.peak - unit_);
  }

  // Returns false if the engine can do no more for want of memory.
  bool take_turn(Engine& engine, int64_t slice) {
    const Bytes budget = target(engine.halfway);
    if (engine.search && (engine.budget >= result_.peak || engine.budget < result_.lower_bound)) engine.search.reset();
    if (!engine.search) {
      engine.budget = budget;
      engine.search = make(engine, budget);
    }
    const int64_t before = engine.search->states();
    const Answer answer = engine.search->run(slice, [this] { return out_of_time(); });
    result_.states += engine.search->states() - before;
    result_.memory_bytes = std::max(result_.memory_bytes, engine.search->memory());
    if (answer == Answer::kMemory) return false;
    if (answer == Answer::kYes) {
      offer_macros(*engine.problem, engine.search->order());
      engine.search.reset();
    } else if (answer == Answer::kNo) {
      refute(engine);
      engine.search.reset();
    }
    return true;
  }

  std::unique_ptr<Search> make(const Engine& engine, Bytes budget) const {
    const size_t share = options_.memory_bytes / 8;
    return engine.nested ? nested_commit(*engine.problem, budget, options_.switches.search, share)
                         : best_first(*engine.problem, budget, options_.switches.search, share);
  }

  void refute(const Engine& engine) {
    const Bytes next = std::min(engine.search->next(), result_.peak);
    const Bytes above = std::max(next, (engine.budget / unit_ + 1) * unit_);  // a budget need not be a multiple
    if (above <= result_.lower_bound) return;
    result_.lower_bound = above;
    result_.proof = Result::kSearch;
    result_.refuted = above - 1;
    result_.refuted_reversed = engine.problem->reversed;
    result_.refuting_states = engine.search->states();
  }

  void conclude() {
    result_.lower_bound = std::min(result_.lower_bound, result_.peak);
    if (model_.n == 0) result_.lower_bound = result_.peak;
    if (result_.lower_bound >= result_.peak)
      result_.stopped = "proof";
    else if (result_.stopped.empty())
      result_.stopped = "complete";
  }

  const Model& model_;
  const Options& options_;
  const Clock::time_point begun_;
  LazyBound bound_;
  const Bytes unit_;
  Problem forward_, reversed_;
  Result result_;
  double reported_ = 0;
  bool halted_ = false;
};

}  // namespace

Result solve(const Model& model, const std::vector<int>& start, const Options& options) {
  return Solver(model, options).solve(start);
}

}  // namespace tide
