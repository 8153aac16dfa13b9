// The best way through an order of ops: each runs whole, or in a region of neighbours that is cut in stripes.
//
// What is tried: intervals of this order, one seed (the last op of an interval, along one axis), equal stripes, as many
// as powers of two and as there can be. None begins or ends at an op that follows in place, none ends where the parts
// of what its last op makes would not fit beside the whole. A limit on the peak is lowered by bisection; under each,
// the way of least weight: the fewest ops, or the fewest nanoseconds (`CutModel::weighed`). The numbers of stripes of
// the best way are then tried one by one.
#pragma once

#include <functional>
#include <vector>

#include "cut/region.h"

namespace tide {

struct PathRegion {
  int begin = 0, end = 0;  // positions [begin, end)
  int axis = 0;            // of the op at end - 1
  bool push = false;
  int stripes = 1;
  Bytes peak = 0;
  int ops = 0;
  int64_t weight = 0;
};

struct PathOptions {
  int longest = 64;  // positions of a region at the most
  int most_stripes = 128;
  Bytes at_least = 0;       // no lower peak is of use
  int most_ops = 0;         // ops that may run; 0: any number
  int64_t most_weight = 0;  // what a way may weigh; 0: any weight
  std::function<bool()> stop;
};

struct PathResult {
  Bytes peak = 0;
  int ops = 0;
  int64_t weight = 0;
  std::vector<PathRegion> regions;
  int64_t evaluated = 0;  // regions whose footprint was worked out
  bool complete = false;  // whether it was not stopped
};

PathResult best_path(const CutModel& model, const PathOptions& options);

// Ways of ever lower peaks and ever more weight, from the whole graph down to the lowest peak: under limits that fall
// by a tenth at least.
std::vector<PathResult> path_front(const CutModel& model, const PathOptions& options);

}  // namespace tide
