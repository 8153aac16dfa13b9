#include "order/incumbent.h"

#include <algorithm>
#include <stdexcept>

namespace tide {

namespace {

constexpr double kBetweenReports = 0.05;  // seconds
constexpr int kCutsAtOnce = 8;

}  // namespace

Incumbent::Incumbent(const Model& model, const Options& options)
    : model_(model), options_(options), begun_(Clock::now()), bound_(model), unit_(unit_of(model)) {}

bool Incumbent::out_of_time() {
  if (halted_) return true;
  const double now = seconds();
  if (now >= options_.seconds) {
    halted_ = true;
    cut_short_ = Stopped::kTime;
  } else if (options_.report && now - reported_ > kBetweenReports) {
    reported_ = now;
    if (options_.report(peak(), lower_bound(), now)) {
      halted_ = true;
      cut_short_ = Stopped::kInterrupt;
    }
  }
  return halted_;
}

bool Incumbent::finished() {
  if (static_cast<double>(peak() - lower_bound()) <= options_.gap * static_cast<double>(peak())) return true;
  if (options_.budget >= 0) {
    const bool decided = options_.until_decided, impossible = decided || options_.until_impossible;
    if (decided && peak() <= options_.budget) return true;
    if (impossible && lower_bound() > options_.budget) return true;
  }
  return out_of_time();
}

void Incumbent::offer(const std::vector<int>& order) {
  const Bytes value = tide::peak(model_, order);
  if (options_.switches.cut) bound_.see(order);
  if (result.order.size() == order.size() && value >= peak() && model_.n > 0) return;
  result.order = order;
  result.peak = value;
  note();
}

void Incumbent::raise_bound(int cuts) {
  if (!options_.switches.cut) return;
  for (int made = 0; made < cuts && !finished(); made += kCutsAtOnce) {
    const int done = bound_.raise(kCutsAtOnce, peak());
    add_cuts(done);
    if (bound_.value() > lower_bound()) {
      result.lower_bound = bound_.value();
      result.proof = Proof::kCut;
      note();
    }
    result.cut_op = bound_.op();
    result.cut_bound = bound_.value();
    if (done < kCutsAtOnce) break;
  }
}

void Incumbent::refute(Bytes budget, Bytes next, Direction direction, int64_t states) {
  const Bytes above = std::max(std::min(next, peak()), budget / unit_ * unit_ + unit_);
  if (above <= lower_bound()) return;
  result.lower_bound = above;
  result.proof = Proof::kSearch;
  result.refuted = above - 1;
  result.direction = direction;
  result.refuting_states = states;
  note();
}

Bytes Incumbent::in_the_gap(Bytes parts) const {
  if (asks_between()) return options_.budget;
  const Bytes low = lower_bound(), middle = low + (peak() - low) / parts;
  return std::clamp(middle / unit_ * unit_, low, peak() - unit_);
}

bool Incumbent::decided_by_no(Bytes budget) const {
  const bool asked = options_.budget >= 0 && (options_.until_decided || options_.until_impossible);
  return budget >= peak() - unit_ || (asked && budget >= options_.budget);
}

void Incumbent::conclude() {
  if (model_.n == 0) result.lower_bound = peak();
  if (lower_bound() > peak()) throw std::logic_error("a lower bound above the peak of an order: a rule does not hold");
  const bool proved = lower_bound() >= peak();
  result.stopped = proved ? Stopped::kProof : cut_short_.value_or(Stopped::kComplete);
}

}  // namespace tide
