// The best way through an order of ops: each runs whole, or in a region of neighbours that is cut in stripes.
//
// What is tried: intervals of an order, one seed (the last op of an interval, along one axis), equal stripes, as many
// as powers of two and as there can be. None begins or ends at an op that follows in place, none ends where the parts
// of what its last op makes would not fit beside the whole. A limit on the peak is lowered by bisection; under each,
// the way of least weight: the fewest ops, or the fewest nanoseconds (`CutModel::weighed`), among intervals between low
// points of what is live first. A region has so many ops at the most (`PathOptions::longest`), and four times as many
// where less is live at both of its ends than anywhere near: a stage of a network. The numbers of stripes of the best
// way are then tried one by one.
//
// Where weights do not matter but to choose among equal peaks, it goes in stages, each below what the one before found:
// intervals between low points of what is live; orders in which ops of one region were made neighbours (`Passage`); all
// intervals of the model's own order; at the end the way of least weight to the lowest peak.
#pragma once

#include <vector>

#include "cut/intervals.h"

namespace tide {

struct PathResult {
  Bytes peak = 0;
  int ops = 0;
  int64_t weight = 0;
  std::vector<int> order;           // the ops in the order of the way, in positions of the model's
  std::vector<PathRegion> regions;  // positions in that order
  std::vector<int> handed;          // tensors that they leave in pieces, which nobody puts together
  int64_t evaluated = 0;            // regions that were tried
  int64_t given_up = 0;             // and of these those whose footprint is above the limit, by some of their steps
  bool complete = false;            // whether it was not stopped
};

// `before`: of each op those that must run before it. Without, only the model's own order is looked at.
PathResult best_path(const CutModel& model, const PathOptions& options, std::vector<std::vector<int>> before = {});

// Ways of ever lower peaks and ever more weight, from the whole graph down to the lowest peak: under limits that fall
// by a tenth at least. All in the model's own order.
std::vector<PathResult> path_front(const CutModel& model, const PathOptions& options);

// Ways of the least weight under each of some limits on the peak, those there are, in the model's own order.
std::vector<PathResult> paths_within(const CutModel& model, const PathOptions& options,
                                     const std::vector<Bytes>& limits);

}  // namespace tide
