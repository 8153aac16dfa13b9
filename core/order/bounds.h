// The lower bound over all orders, one minimum cut at a time where it can still pay.
#pragma once

#include "order/cut.h"

namespace tide {

// No cut at v can exceed v's footprint in any order seen. So the next op worth a cut is the one whose least seen
// footprint is largest, and none is once that is no more than the bound.
class LazyBound {
 public:
  explicit LazyBound(const Model& model);

  // Learns from an order's footprints.
  void see(const std::vector<int>& order);
  // Makes up to `cuts` cuts, as long as the bound is below `goal`. Returns how many it made.
  int raise(int cuts, Bytes goal);

  Bytes value() const { return value_; }
  int op() const { return op_; }

 private:
  const Model& model_;
  CutBound cut_;
  std::vector<Bytes> least_seen_;
  std::vector<char> made_;
  Bytes value_ = 0;
  int op_ = -1;
};

}  // namespace tide
