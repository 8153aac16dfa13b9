#include "order/restore_own_order.h"

#include <algorithm>

#include "order/beam.h"
#include "order/fuse.h"
#include "order/walker.h"

namespace tide {

namespace {

constexpr size_t kFewRelations = 32;  // bytes for each op

class OwnOrderRestorer {
 public:
  OwnOrderRestorer(const Problem& problem, std::vector<int>& order, Bytes budget)
      : order_(order), budget_(budget), walker_(problem), f_(problem.start) {}

  // Restores order_[begin, end); everything before has run. `part` of a stretch that does not fit is tried next.
  void stretch(int begin, int end, double part) {
    std::vector<int> sorted(order_.begin() + begin, order_.begin() + end);
    std::sort(sorted.begin(), sorted.end());
    if (run(sorted)) {
      std::copy(sorted.begin(), sorted.end(), order_.begin() + begin);
      return;
    }
    const int middle = std::clamp(begin + static_cast<int>((end - begin) * part), begin + 1, end - 1);
    stretch(begin, middle, part);
    stretch(middle, end, part);
  }

 private:
  // Runs the ops if every hill fits; else leaves the walker where it was. A single op always fits.
  bool run(const std::vector<int>& ops) {
    const Bytes before = f_;
    for (size_t k = 0; k < ops.size(); ++k) {
      const Outcome o = walker_.outcome(ops[k]);
      if (f_ + o.hill > budget_ && ops.size() > 1) {
        while (k-- > 0) walker_.take_back(ops[k]);
        f_ = before;
        return false;
      }
      walker_.run(ops[k]);
      f_ += o.change;
    }
    return true;
  }

  std::vector<int>& order_;
  const Bytes budget_;
  Walker walker_;
  Bytes f_;
};

}  // namespace

std::vector<int> restore_own_order(const Model& model, const std::vector<int>& order, Bytes budget) {
  const Chains chains = single_ops(model);
  const Problem problem = compile(model, chains, Reach(model.preds, kFewRelations * model.n), false);
  std::vector<int> result = order;
  if (model.n == 0) return result;
  for (const double part : {0.5, 0.34, 0.66, 0.5}) OwnOrderRestorer(problem, result, budget).stretch(0, model.n, part);
  return result;
}

std::vector<int> draw(const Model& model, Bytes budget, int width, uint64_t seed, bool reversed,
                      const std::function<bool()>& stop) {
  constexpr size_t kReachMemory = size_t{64} << 20;
  const Chains chains = fuse(model, {}, kReachMemory);
  const Problem problem = compile(model, chains, Reach(chain_preds(model, chains), kReachMemory), reversed);
  const BeamResult found = beam(problem, width, budget, budget + 1, seed, stop);
  std::vector<int> order;
  for (int m : found.macros) order.insert(order.end(), problem.chains[m].begin(), problem.chains[m].end());
  if (reversed) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace tide
