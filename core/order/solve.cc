#include "order/solve.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "order/beam.h"
#include "order/bounds.h"
#include "order/propagate.h"
#include "order/state_table.h"

namespace tide {

namespace {

constexpr size_t kReachMemory = size_t{256} << 20;
// Cutting a network of so many nodes takes about the time of expanding a state.
constexpr int64_t kWorkPerState = 10;
constexpr int64_t kSymmetryWork = 20000000;
constexpr int64_t kThreadedSlice = 30000, kLongestSlice = 200000;
constexpr Bytes kAnyBudget = std::numeric_limits<Bytes>::max();

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
      cut_short_ = Stopped::kTime;
    } else if (options_.report && now - reported_ > 0.05) {
      reported_ = now;
      if (options_.report(result_.peak, result_.lower_bound, now)) {
        halted_ = true;
        cut_short_ = Stopped::kInterrupt;
      }
    }
    return halted_;
  }

  bool finished() {
    if (result_.lower_bound >= result_.peak) return true;
    if (options_.budget >= 0) {
      const bool decided = options_.until_decided, impossible = decided || options_.until_impossible;
      if (decided && result_.peak <= options_.budget) return true;
      if (impossible && result_.lower_bound > options_.budget) return true;
    }
    return out_of_time();
  }

  void note() { result_.trace.push_back({seconds(), result_.peak, std::min(result_.lower_bound, result_.peak)}); }

  // Takes an order if it is better than the best.
  void offer(const std::vector<int>& order) {
    const Bytes value = peak(model_, order);
    if (options_.switches.cut) bound_.see(order);
    if (result_.order.size() == order.size() && value >= result_.peak && model_.n > 0) return;
    result_.order = order;
    result_.peak = value;
    note();
  }

  // Both directions of a reduced problem, and how its ops are numbered in the model.
  struct Reduced {
    Problem forward, reversed;
    std::vector<int> original;
    Bytes only_within = kAnyBudget;              // what it says holds for budgets up to this
    std::unique_ptr<Symmetry> symmetry[2] = {};  // forward, reversed; looked for when turns get long
  };

  Reduced reduce(const Model& model, std::vector<int> original, Bytes only_within) const {
    const Chains chains = fuse(model, options_.switches.fusion, kReachMemory);
    const Reach reach(chain_preds(model, chains), kReachMemory);
    return {compile(model, chains, reach, false),
            compile(model, chains, reach, true),
            std::move(original),
            only_within,
            {}};
  }

  void offer_macros(const Reduced& reduced, bool reversed, const std::vector<int>& macros) {
    const Problem& p = reversed ? reduced.reversed : reduced.forward;
    std::vector<int> order;
    order.reserve(model_.n);
    for (int m : macros)
      for (int v : p.chains[m]) order.push_back(reduced.original[v]);
    if (reversed) std::reverse(order.begin(), order.end());
    offer(order);
  }

  void reduce() {
    raise_bound(64);
    if (finished()) return;
    std::vector<int> same(model_.n);
    std::iota(same.begin(), same.end(), 0);
    free_ = reduce(model_, same, kAnyBudget);
    result_.reduced_ops = free_.forward.n;
  }

  void raise_bound(int cuts) {
    if (!options_.switches.cut) return;
    for (int made = 0; made < cuts && !finished(); made += 8) {
      const int done = bound_.raise(8, result_.peak);
      result_.cuts += done;
      if (bound_.value() > result_.lower_bound) {
        result_.lower_bound = bound_.value();
        result_.proof = Proof::kCut;
        note();
      }
      result_.cut_op = bound_.op();
      result_.cut_bound = bound_.value();
      if (done < 8) break;
    }
  }

  struct Descent {
    bool reversed;
    BeamResult found;
  };

  // Beams that aim at a budget below the best: up to it all peaks are equal, so the least f decides. Ties broken at
  // random find what ties broken by number miss. Big steps first, as many as `states` allow.
  std::vector<Descent> descend(int width, int64_t states, const std::function<bool()>& stop) const {
    std::vector<Descent> results;
    Bytes best = result_.peak;
    Bytes step = std::max(unit_, (best - result_.lower_bound) / 2 / unit_ * unit_);
    while (states > 0 && best - step >= result_.lower_bound && !stop()) {
      bool lower = false;
      for (uint64_t draw = 0; draw < 4 && !lower; ++draw) {
        const bool reversed = draw % 3 == 0;
        const Bytes budget = best - step;
        BeamResult found = beam(reversed ? free_.reversed : free_.forward, width, budget, budget + 1,
                                draw == 0 ? 0 : options_.seed + width + draw, stop);
        states -= found.states + 1;
        lower = !found.macros.empty();
        if (lower) best = found.peak;
        results.push_back({reversed, std::move(found)});
      }
      if (!lower && step == unit_) break;
      if (!lower || best - step < result_.lower_bound) step = std::max(unit_, step / 2 / unit_ * unit_);
    }
    return results;
  }

  void take_up(const BeamResult& found, bool reversed) {
    result_.beam_states += found.states;
    if (!found.macros.empty()) offer_macros(free_, reversed, found.macros);
  }

  void widen(int width) {
    for (const bool reversed : {true, false}) {
      if (finished()) return;
      take_up(beam(reversed ? free_.reversed : free_.forward, width, result_.lower_bound, result_.peak, options_.seed,
                   [this] { return out_of_time(); }),
              reversed);
    }
  }

  // Beams from the end that aim just below the best, as long as they get there. Where one does, it often is the
  // optimum: much that the beams of approach(), which aim at the lower bound, throw away is within this budget.
  void aim(int width) {
    while (!finished()) {
      const Bytes before = result_.peak;
      take_up(beam(free_.reversed, width, before - unit_, before, 0, [this] { return out_of_time(); }), true);
      if (result_.peak == before) return;
    }
  }

  void approach() {
    if (!options_.switches.beams) return;
    for (int width : {1, 4, 32}) {
      if (width > 1 && static_cast<int64_t>(width) * free_.forward.n > 200000) break;
      widen(width);
      if (finished()) return;
      raise_bound(width == 1 ? 64 : 16);
      if (finished()) return;
    }
  }

  struct Engine {
    bool reversed;
    bool nested;
    bool halfway;  // asks about the middle of the gap instead of just below the best
    std::unique_ptr<Search> search = nullptr;
    std::shared_ptr<const Reduced> reduced = nullptr;
    Bytes budget = 0;
    Answer answer = Answer::kUnknown;
    int64_t counted = 0;  // states already in the result

    bool quick() const { return reversed && !nested; }
    bool leads(bool wide) const { return quick() && halfway == wide; }
  };

  // Lets the engines take turns, counted in states, until the bounds meet. From the end the search is usually far
  // quicker (docs/proofs.md, From the end), so those engines get most turns; the others are there for when it is not.
  // Once turns are long, the engine with most turns has one thread and everything else another. Results are
  // taken up when both are done, in a fixed order, so that the outcome does not depend on who was quicker. Only when
  // the first thread's answer ends everything, the other one leaves off, and what it did in this turn does not count.
  void search() {
    std::vector<Engine> engines;
    const Switches& on = options_.switches;
    for (const bool halfway : {false, true})
      for (const bool reversed : {true, false})
        for (const bool nested : {false, true})
          if ((reversed ? on.reversed : on.forward) && (nested ? on.nested : on.best_first))
            engines.push_back({reversed, nested, halfway});
    int64_t slice = options_.first_slice;
    int aimed = 64, width = 128;
    int64_t saved = 0;  // states put aside for the next, wider beams
    while (!finished()) {
      const bool wide = (result_.peak - result_.lower_bound) * 4 > result_.peak;
      const auto turn = [&](Engine& engine, const std::function<bool()>& stop) {
        const int64_t states = std::max<int64_t>(1, slice / share(engine, wide));
        engine.answer = engine.search->run(states, stop);
      };
      const bool ask = on.propagate && slice > options_.first_slice;
      std::vector<Descent> beams;
      const auto others = [&](const std::function<bool()>& stop) {
        for (Engine& engine : engines)
          if (!engine.leads(wide) && !stop()) turn(engine, stop);
        if (ask) answer_questions(kWorkPerState * slice, stop);
        saved += slice / 4;
        if (on.beams && saved > int64_t{2} * width * free_.forward.n) {
          beams = descend(width, std::exchange(saved, 0), stop);
          width *= 2;
        }
      };
      if (on.symmetry && !looked_for_symmetry_ && slice > 4 * options_.first_slice) {
        looked_for_symmetry_ = true;
        look_for_symmetry(free_);
        if (restricted_) look_for_symmetry(*restricted_);
        if (result_.symmetries > 0)
          for (Engine& engine : engines) engine.search.reset();
      }
      for (Engine& engine : engines) prepare(engine);
      std::atomic<bool> decided = false;
      const std::function<bool()> looking = [&] { return decided || out_of_time(); };
      const std::function<bool()> waiting = [&] { return decided || halted_ || seconds() >= options_.seconds; };
      const bool together = slice >= kThreadedSlice;
      std::thread helper;
      if (together) helper = std::thread(others, waiting);
      const auto leader =
          std::find_if(engines.begin(), engines.end(), [&](const Engine& engine) { return engine.leads(wide); });
      if (leader != engines.end() && !out_of_time()) {
        turn(*leader, looking);
        decided = decides(*leader);
      }
      if (together)
        helper.join();
      else
        others(looking);
      if (decided) {
        take_up(*leader);
        return;
      }
      bool any = false;
      for (Engine& engine : engines) any |= take_up(engine);
      any |= question_ || !answers_.empty();
      for (auto& answer : std::exchange(answers_, {})) take_up(*answer);
      for (const Descent& d : beams) take_up(d.found, d.reversed);
      if (on.beams && !together && int64_t{aimed} * free_.forward.n <= 4 * slice) {
        aim(aimed);
        aimed *= 2;
      }
      if (finished()) return;
      if (!any) {
        if (!cut_short_ && !engines.empty()) cut_short_ = Stopped::kMemory;
        return;
      }
      slice = std::min(slice * 5 / 2, kLongestSlice);
      raise_bound(64);
    }
  }

  // One in how many states of a slice an engine gets. Where the gap is wide, its middle is asked about first: a lower
  // budget is refuted in far fewer states, and a higher one met in fewer.
  static int share(const Engine& engine, bool wide) {
    return (engine.reversed ? 1 : 8) * (engine.nested ? 8 : 1) * (engine.halfway == wide ? 1 : 4);
  }

  // Whether nothing is left to be asked once this engine's answer is taken up.
  bool decides(const Engine& engine) const {
    const bool asked = options_.budget >= 0 && (options_.until_decided || options_.until_impossible);
    if (engine.answer == Answer::kNo)
      return engine.budget >= result_.peak - unit_ || (asked && engine.budget >= options_.budget);
    return engine.answer == Answer::kYes && asked && options_.until_decided && engine.budget <= options_.budget;
  }

  Bytes target(bool halfway) const {
    if (options_.budget >= result_.lower_bound && options_.budget < result_.peak && (options_.until_decided || halfway))
      return options_.budget;
    if (!halfway) return result_.peak - unit_;
    const Bytes low = result_.lower_bound, middle = low + (result_.peak - low) / aim_;
    return std::clamp(middle / unit_ * unit_, low, result_.peak - unit_);
  }

  void look_for_symmetry(Reduced& reduced) {
    const auto stop = [this] { return out_of_time(); };
    reduced.symmetry[0] = std::make_unique<Symmetry>(reduced.forward, kSymmetryWork, stop);
    reduced.symmetry[1] = std::make_unique<Symmetry>(reduced.reversed, kSymmetryWork, stop);
    result_.symmetries = std::max(result_.symmetries, reduced.symmetry[1]->size());
  }

  // Gives an engine a new search if the bounds have overtaken its budget.
  void prepare(Engine& engine) {
    if (engine.search && (engine.budget >= result_.peak || engine.budget < result_.lower_bound)) engine.search.reset();
    if (engine.search) return;
    engine.budget = target(engine.halfway);
    engine.reduced = restricted_ && engine.budget <= restricted_->only_within
                         ? restricted_
                         : std::shared_ptr<const Reduced>(&free_, [](const Reduced*) {});
    const Problem& p = engine.reversed ? engine.reduced->reversed : engine.reduced->forward;
    const size_t memory = std::min(options_.memory_bytes, StateTable::kMostMemory) / 3 / (engine.quick() ? 1 : 6);
    engine.search = engine.nested ? nested_commit(p, engine.budget, options_.switches.search, memory)
                                  : best_first(p, engine.budget, options_.switches.search, memory,
                                               engine.reduced->symmetry[engine.reversed].get());
    engine.counted = 0;
  }

  // Takes up what an engine found. Returns false if it can do no more for want of memory.
  bool take_up(Engine& engine) {
    if (!engine.search) return true;
    result_.states += engine.search->states() - engine.counted;
    engine.counted = engine.search->states();
    result_.memory_bytes = std::max(result_.memory_bytes, engine.search->memory());
    const Answer answer = std::exchange(engine.answer, Answer::kUnknown);
    if (answer == Answer::kMemory) return false;
    if (answer == Answer::kYes) {
      offer_macros(*engine.reduced, engine.reversed, engine.search->order());
      engine.search.reset();
    } else if (answer == Answer::kNo) {
      // Within a restriction, budgets above its own are not excluded, however high the least hill left out.
      const Bytes next = engine.reduced->only_within == kAnyBudget ? engine.search->next() : engine.budget;
      refute(engine.budget, next, engine.reversed ? Direction::kReversed : Direction::kForward,
             engine.search->states());
      longest_refutation_ = std::max(longest_refutation_, engine.search->states());
      engine.search.reset();
    } else if (engine.halfway && engine.quick() && engine.search->states() > 3 * longest_refutation_) {
      // The middle asks too much: a budget nearer to the bound falls sooner.
      engine.search.reset();
      aim_ = std::min<Bytes>(2 * aim_, 64);
    }
    return true;
  }

  // Propagation is asked what follows from the budget just below the best; once that is known, about the middle of
  // what it has left open, and so on. Only reads what the other thread does not write.
  void answer_questions(int64_t work, const std::function<bool()>& stop) {
    const Bytes below = target(false);
    Bytes low = result_.lower_bound / unit_ * unit_;
    if (question_ && (question_->budget() > below || question_->budget() < low)) question_.reset();
    while (work > 0 && !stop()) {
      if (!question_) {
        const bool first = asked_below_ > below;
        const Bytes high = std::min(standing_, below);
        const Bytes budget = first ? below : low + (high - low) / 2 / unit_ * unit_;
        if (!first && budget >= high) return;
        question_ = std::make_unique<Propagation>(model_, budget, options_.switches.fusion);
      }
      const int64_t before = question_->work();
      const bool done = question_->run(work, stop);
      work -= question_->work() - before;
      if (!done) return;
      if (question_->budget() == below) asked_below_ = below;
      if (question_->refuted())
        low = question_->budget() + unit_;
      else
        standing_ = std::min(standing_, question_->budget());
      answers_.push_back(std::move(question_));
      if (low > below) return;
    }
  }

  void take_up(const Propagation& answer) {
    result_.cuts += answer.cuts();
    if (answer.refuted()) {
      refute(answer.budget(), answer.budget(), Direction::kPropagation, 0);
    } else if (answer.budget() == asked_below_ && (!restricted_ || restricted_->only_within > asked_below_)) {
      restricted_ =
          std::make_shared<Reduced>(reduce(answer.restricted().model, answer.restricted().original, answer.budget()));
      if (looked_for_symmetry_) look_for_symmetry(*restricted_);
    }
  }

  void refute(Bytes budget, Bytes next, Direction direction, int64_t states) {
    const Bytes above = std::max(std::min(next, result_.peak), budget / unit_ * unit_ + unit_);
    if (above <= result_.lower_bound) return;
    result_.lower_bound = above;
    result_.proof = Proof::kSearch;
    result_.refuted = above - 1;
    result_.direction = direction;
    result_.refuting_states = states;
    note();
  }

  void conclude() {
    result_.lower_bound = std::min(result_.lower_bound, result_.peak);
    if (model_.n == 0) result_.lower_bound = result_.peak;
    const bool proved = result_.lower_bound >= result_.peak;
    result_.stopped = proved ? Stopped::kProof : cut_short_.value_or(Stopped::kComplete);
  }

  const Model& model_;
  const Options& options_;
  const Clock::time_point begun_;
  LazyBound bound_;
  const Bytes unit_;
  Reduced free_;
  std::shared_ptr<Reduced> restricted_;                // what the budget below the best implies, once that is known
  std::unique_ptr<Propagation> question_;              // being answered
  std::vector<std::unique_ptr<Propagation>> answers_;  // of this round
  Bytes asked_below_ = kAnyBudget;                     // least budget just below the best that was asked about
  bool looked_for_symmetry_ = false;
  Bytes aim_ = 2;                        // the halfway engines ask about one part in so many of the gap
  int64_t longest_refutation_ = 100000;  // states of the longest one that ended
  Bytes standing_ = kAnyBudget;          // least budget that propagation could not refute
  Result result_;
  std::optional<Stopped> cut_short_;
  double reported_ = 0;
  std::atomic<bool> halted_ = false;
};

}  // namespace

bool* Switches::named(const std::string& name) {
  const std::pair<const char*, bool*> known[] = {
      {"fuse_a", &fusion.a},
      {"fuse_b", &fusion.b},
      {"fuse_c", &fusion.c},
      {"cut", &cut},
      {"beams", &beams},
      {"closure", &search.closure},
      {"safe_moves", &search.safe_moves},
      {"commits", &search.commits},
      {"forward", &forward},
      {"reversed", &reversed},
      {"best_first", &best_first},
      {"nested", &nested},
      {"propagate", &propagate},
      {"symmetry", &symmetry},
  };
  for (const auto& [own, rule] : known)
    if (name == own) return rule;
  return nullptr;
}

Result solve(const Model& model, const std::vector<int>& start, const Options& options) {
  return Solver(model, options).solve(start);
}

}  // namespace tide
