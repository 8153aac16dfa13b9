// Intervals of an order as regions: what each takes in which number of stripes, worked out once.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "cut/region.h"

namespace tide {

struct PathRegion {
  int begin = 0, end = 0;  // positions [begin, end)
  int axis = 0;            // of the op at end - 1
  Pace pace = Pace::kPull;
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

class Intervals {
 public:
  Intervals(const CutModel& model, const PathOptions& options);

  // The region of an interval of least weight below a limit, or with `any` the first that there is.
  bool cut(int begin, int end, Bytes limit, bool any, PathRegion& best);
  // Whether the op at a position only changes in place what the one before made for it: no region begins or ends there.
  bool follows(int at) const;
  // Bytes beside what is live behind a region: parts of what its last op makes, while they are put together or added
  // up.
  Bytes copied(int end) const;
  // Whether an op may run whole below a limit: what it reads whole and is surely in pieces has to be joined before.
  bool single(int op, Bytes limit) const;
  // What the region that was grown reads otherwise than in the pieces in which it may come.
  std::vector<int> unfit(int begin, int end) const;
  // Whether these may be joined before a position, those of them that are surely in pieces below a limit.
  bool may_join(const std::vector<int>& tensors, int begin, Bytes limit) const;
  // Whether parts of an op along two axes are alike in all that memory hangs on.
  bool alike(int op, int axis, int other) const;
  // Forgets what hangs on positions [begin, end), whose ops have changed.
  void forget(int begin, int end);
  // How the region that was grown last may be cut: paces, and the numbers of stripes to try of each.
  std::vector<std::pair<Pace, std::vector<int>>> paces() const;

  Regions& regions() { return regions_; }
  // Regions whose footprint was worked out.
  int64_t evaluated() const { return evaluated_; }
  RegionCost cost(int stripes, Pace pace, Bytes limit = kNoLimit);

 private:
  // One interval along one axis of its last op: what is known of it for numbers of stripes, each tried once.
  struct Candidate {
    int axis;
    Pace pace;
    std::vector<int> stripes;  // to try, ascending
    std::vector<RegionCost> costs;
    std::vector<int> unfit;
  };

  struct Interval {
    Bytes least = 0;  // what is there all the time
    bool grown = false;
    std::vector<Candidate> candidates;
  };

  Interval& interval_of(int begin, int end);
  void find_candidates(int begin, int end, Interval& interval);

  const CutModel& m_;
  const PathOptions& o_;
  Regions regions_;
  std::unordered_map<int64_t, Interval> intervals_;
  std::vector<std::vector<int>> conflicts_;
  std::vector<std::vector<std::pair<int, int>>> seen_;  // of the axes of an interval: who is cut, and along which
  int64_t evaluated_ = 0;
};

}  // namespace tide
