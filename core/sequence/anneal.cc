#include "sequence/anneal.h"

#include <algorithm>
#include <cmath>

#include "sequence/shave.h"
#include "sequence/timeline.h"

namespace tide {

namespace {

constexpr double kHot = 1e-3, kCold = 1e-7;  // temperatures, as parts of the time of all ops once
constexpr double kExcess = 20;               // times that time is what a peak of twice the budget costs
constexpr int64_t kAsk = 256;                // steps between looks at the clock
constexpr int64_t kSpread = 1 << 14;         // steps after which runs are spread out anew

class Annealing {
 public:
  Annealing(const SequenceProblem& problem, const std::vector<int>& order, const SequenceOptions& options)
      : problem_(problem), options_(options), line_(problem, order), random_(line_, options.seed) {}

  SequenceResult run() {
    const double once = static_cast<double>(std::max<Cost>(1, problem_.cost()));
    weight_ = kExcess * once / static_cast<double>(std::max<Bytes>(1, options_.budget));
    energy_ = energy();
    keep();
    for (int64_t step = 0; step < options_.steps && !over(step); ++step) {
      const double done = static_cast<double>(step) / static_cast<double>(options_.steps);
      change(kHot * once * std::pow(kCold / kHot, done));
      if (step % kSpread == kSpread - 1) line_.spread();
      ++result_.steps;
    }
    finish();
    return result_;
  }

 private:
  double energy() const {
    const Bytes excess = std::max<Bytes>(0, line_.peak() - options_.budget);
    return static_cast<double>(line_.cost()) + weight_ * static_cast<double>(excess);
  }

  bool over(int64_t step) {
    if (step % kAsk == 0 && options_.stop) result_.stopped = options_.stop(result_.cost);
    return result_.stopped != Stopped::kComplete;
  }

  void change(double temperature) {
    const size_t mark = line_.mark();
    if (!propose()) return;
    const double now = energy();
    if (now > energy_ && random_.uniform() >= std::exp((energy_ - now) / temperature)) {
      line_.undo(mark);
      return;
    }
    energy_ = now;
    line_.forget();
    if (line_.peak() <= options_.budget ? !result_.found || line_.cost() < result_.cost
                                        : !result_.found && line_.peak() < result_.peak)
      keep();
  }

  bool propose() {
    const int slot = 1 + random_.below(line_.end() - 1), op = line_.op(slot);
    if (op < 0) {
      if (random_.below(2)) return move_to(slot);
      const int v = random_.below(problem_.n());
      if (problem_.ops[v].once || !line_.can_put(v, slot)) return false;
      line_.put(v, slot, line_.before(slot));
      return true;
    }
    if (!line_.can_take(slot)) return false;
    line_.take(slot);
    return true;
  }

  // A run of some op comes to stand at a free slot.
  bool move_to(int slot) {
    const std::vector<int>& runs = line_.runs_of(random_.below(problem_.n()));
    const int from = runs[random_.below(static_cast<int>(runs.size()))];
    const auto [low, high] = line_.window(from);
    if (slot <= low || slot >= high) return false;
    line_.move(from, slot, line_.before(slot));
    return true;
  }

  void keep() {
    result_.found = line_.peak() <= options_.budget;
    result_.cost = line_.cost();
    result_.peak = line_.peak();
    result_.order = line_.order();
  }

  // Runs that the best sequence does not need are taken away.
  void finish() {
    if (!result_.found) return;
    line_ = Timeline(problem_, result_.order);
    random_.tidy(options_.budget);
    keep();
  }

  const SequenceProblem& problem_;
  const SequenceOptions& options_;
  Timeline line_;
  Shaver random_;
  double weight_ = 0, energy_ = 0;
  SequenceResult result_;
};

}  // namespace

SequenceResult anneal_sequence(const SequenceProblem& problem, const std::vector<int>& order,
                               const SequenceOptions& options) {
  return Annealing(problem, order, options).run();
}

}  // namespace tide
