#include "sequence/cut_start.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sequence/price_cut.h"
#include "sequence/timeline.h"

namespace tide {

namespace {

constexpr int kPrices = 40;           // tried at most
constexpr int kCoarser = 12;          // bits of a scale that it is coarser by than the one before
constexpr int64_t kMost = 1LL << 60;  // of all costs, and of all bytes, at a price

class Starts {
 public:
  Starts(const SequenceProblem& problem, const std::vector<int>& order, Bytes budget)
      : problem_(problem), order_(order), budget_(budget) {
    const Timeline line(problem, order);
    v_ = line.op(line.highest());
    workspace_ = problem.ops[v_].workspace;
  }

  std::vector<std::vector<int>> run() {
    find_price();
    std::vector<std::vector<int>> starts;
    if (!fits_) return starts;
    std::set<std::vector<int>> seen;
    for (const std::vector<int>& again : {high_, low_})
      if (!again.empty() && seen.insert(again).second)
        if (std::vector<int> start = with(again); !start.empty()) starts.push_back(std::move(start));
    return starts;
  }

 private:
  // The price at which the cut at v holds what there is room for lies between two: halved by logarithms. A byte may
  // have to be dearer than whole numbers at the finest scale say.
  void find_price() {
    Bytes sizes = 1;
    for (const SequenceValue& value : problem_.values) sizes += value.size;
    const Cost total = std::max<Cost>(1, problem_.cost());
    int64_t scale = std::max<int64_t>(1, kMost / total);
    while (!try_price(std::max<int64_t>(1, kMost / sizes), scale)) {
      if (scale == 1) return;
      scale = std::max<int64_t>(1, scale >> kCoarser);
    }
    int64_t low = 0, high = std::max<int64_t>(1, kMost / sizes);
    for (int k = 0; k < kPrices && high - low > 1 + low / 256; ++k) {
      const double middle = std::sqrt(static_cast<double>(std::max<int64_t>(1, low)) * static_cast<double>(high));
      const int64_t price = std::clamp(static_cast<int64_t>(middle), low + 1, high - 1);
      (try_price(price, scale) ? high : low) = price;
    }
  }

  bool try_price(int64_t p, int64_t q) {
    PriceCut cut = price_cut(problem_, v_, {p, q}, order_, false);
    const bool fits = cut.held + workspace_ <= budget_;
    fits_ |= fits;
    (fits ? high_ : low_) = std::move(cut.again);
    return fits;
  }

  // The order with these ops once more, each where it is first needed behind v.
  std::vector<int> with(const std::vector<int>& again) {
    wanted_.assign(problem_.n(), 0);
    ran_.assign(problem_.n(), 0);
    for (const int u : again) wanted_[u] = 1;
    sequence_.clear();
    bool behind = false;
    for (const int u : order_) {
      if (behind && !make_again(problem_.ops[u].reads)) return {};
      sequence_.push_back(u);
      ran_[u] = 1;
      behind |= u == v_;
    }
    for (const int u : again)  // what is there at the end, and nobody reads behind v
      if (wanted_[u] && !make_again(problem_.ops[u].makes)) return {};
    return sequence_;
  }

  // Runs what makes these values again, if it is wanted, behind what that reads. False if some of that has changed.
  bool make_again(const std::vector<int>& values) {
    std::vector<int> makers;
    const auto add = [&](const std::vector<int>& made) {
      for (const int x : made)
        if (const int u = problem_.values[x].maker; u >= 0 && wanted_[u]) {
          wanted_[u] = 0;
          makers.push_back(u);
        }
    };
    add(values);
    for (size_t k = 0; k < makers.size(); ++k) add(problem_.ops[makers[k]].reads);
    std::sort(makers.begin(), makers.end());
    for (const int u : makers)
      for (const int w : problem_.ops[u].until)
        if (ran_[w]) return false;
    sequence_.insert(sequence_.end(), makers.begin(), makers.end());
    return true;
  }

  const SequenceProblem& problem_;
  const std::vector<int>& order_;
  Bytes budget_, workspace_ = 0;
  int v_ = -1;
  bool fits_ = false;
  std::vector<int> high_, low_;  // ops that run again at the cheapest price that fits, and the dearest that does not
  std::vector<char> wanted_, ran_;
  std::vector<int> sequence_;
};

}  // namespace

std::vector<std::vector<int>> cut_starts(const SequenceProblem& problem, const std::vector<int>& order, Bytes budget) {
  if (order.empty() || problem.transfers()) return {};
  return Starts(problem, order, budget).run();
}

}  // namespace tide
