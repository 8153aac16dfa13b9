#include "sequence/search.h"

#include <algorithm>
#include <limits>

#include "sequence/shave.h"
#include "sequence/timeline.h"

namespace tide {

namespace {

constexpr int kRound = 256;            // steps after which the search begins at the best again
constexpr double kSlack = 1.0 / 2000;  // of all time: what is let pass at the start of a round
constexpr int kMoves = 200;            // tried in a step
constexpr int kMostTaken = 8;
constexpr int kFruitless = 10000;  // steps in turn, after which it ends
constexpr int kTries = 1000;       // to come within the budget at all
constexpr int kMostRuns = 16;      // of each op, on average, in such a try

class Search {
 public:
  Search(const SequenceProblem& problem, const std::vector<int>& order, const SequenceOptions& options)
      : problem_(problem),
        options_(options),
        line_(problem, order),
        shaver_(line_, options.seed),
        once_(problem.cost()) {}

  SequenceResult run() {
    solve();
    result_.chains = shaver_.chains();
    return result_;
  }

 private:
  void solve() {
    shaver_.stop = [this] { return ended(); };
    bool found = shaver_.shave(options_.budget, 0, std::numeric_limits<Cost>::max());
    keep();
    while (!found && result_.steps < kTries && !over()) {
      ++result_.steps;
      found = try_again();
    }
    if (!found) return;
    shaver_.tidy(options_.budget);
    keep();
    result_.found = true;
    if (options_.repairs) improve();
  }

  bool over() { return (options_.steps >= 0 && result_.steps >= options_.steps) || ended(); }

  // From the lowest sequence so far, its runs moved where that makes nothing higher: whether that can be shaved.
  bool try_again() {
    if (line_.peak() > result_.peak) line_ = Timeline(problem_, result_.order);
    const Bytes peak = line_.peak();
    shaver_.wander(peak, kMoves);
    line_.forget();
    const bool found = shaver_.shave(options_.budget, 0.5 * shaver_.uniform(), std::numeric_limits<Cost>::max());
    if (line_.peak() < result_.peak || (line_.peak() == result_.peak && line_.cost() < result_.cost)) keep();
    if (static_cast<int64_t>(line_.runs()) > kMostRuns * problem_.n()) line_ = Timeline(problem_, result_.order);
    return found;
  }

  bool ended() {
    if (options_.stop && result_.stopped == Stopped::kComplete) result_.stopped = options_.stop(line_.cost());
    return result_.stopped != Stopped::kComplete;
  }

  void keep() {
    result_.cost = line_.cost();
    result_.peak = line_.peak();
    result_.order = line_.order();
  }

  void improve() {
    while (result_.cost > std::max(once_, options_.enough)) {
      if (over() || result_.steps - improved_ >= kFruitless) return;
      const int64_t at = result_.steps++ % kRound;
      if (at == 0) line_ = Timeline(problem_, result_.order);
      const double heat = kSlack * static_cast<double>(once_) * (1 - static_cast<double>(at) / kRound);
      if (options_.moves) shaver_.wander(options_.budget, kMoves);
      line_.forget();
      step(static_cast<Cost>(heat));
    }
    if (result_.cost <= once_) result_.stopped = Stopped::kProof;
  }

  // Takes some repeated runs away, repairs, and keeps what comes of it if it is not too dear.
  void step(Cost heat) {
    again_.clear();
    for (int slot = line_.begin(); slot != line_.end(); slot = line_.next(slot)) {
      const Transfer transfer = problem_.ops[line_.op(slot)].transfer;
      const bool repeated = transfer == Transfer::kNone && line_.runs_of(line_.op(slot)).size() > 1;
      if (repeated || transfer == Transfer::kLoad) again_.push_back(slot);
    }
    const int count = static_cast<int>(again_.size());
    if (count == 0) return;
    const Cost former = line_.cost();
    const int64_t spreads = line_.spreads();
    before_ = line_.order();
    const int first = shaver_.below(count), taken = 1 + shaver_.below(std::min(count, kMostTaken));
    for (int i = 0; i < taken; ++i) {
      const int slot = again_[(first + i) % count];
      if (line_.can_take(slot)) line_.take(slot);
    }
    if (problem_.transfers()) shaver_.drop_stores();
    const double noise = 0.5 * shaver_.uniform();
    const Cost most = former + heat;
    bool better = shaver_.shave(options_.budget, noise, most + static_cast<Cost>(0.01 * static_cast<double>(once_)));
    if (better) {
      shaver_.tidy(options_.budget);
      better = line_.cost() <= former || line_.cost() <= result_.cost + static_cast<Cost>(heat * shaver_.uniform());
    }
    if (!better) {
      if (line_.spreads() == spreads)
        line_.undo(0);
      else
        line_ = Timeline(problem_, before_);
      return;
    }
    if (line_.cost() >= result_.cost) return;
    keep();
    improved_ = result_.steps;
  }

  const SequenceProblem& problem_;
  const SequenceOptions& options_;
  Timeline line_;
  Shaver shaver_;
  Cost once_;
  int64_t improved_ = 0;  // the step at which it last got better
  SequenceResult result_;
  std::vector<int> again_, before_;
};

}  // namespace

SequenceResult search_sequence(const SequenceProblem& problem, const std::vector<int>& order,
                               const SequenceOptions& options) {
  return Search(problem, order, options).run();
}

}  // namespace tide
