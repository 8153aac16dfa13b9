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
  Pieces coming{}, leaving{};  // what it reads, and what it makes, in pieces
  Pieces behind{};             // what is there in pieces behind it
};

struct PathOptions {
  int longest = 64;  // positions of a region at the most, but for those between the lowest points of what is live
  int most_stripes = 128;
  Bytes at_least = 0;                 // no lower peak is of use
  int most_ops = 0;                   // ops that may run; 0: any number
  int64_t most_weight = 0;            // what a way may weigh; 0: any weight
  int64_t above = 0;                  // what an untiled op above the limit weighs in addition; 0: no op is above it
  std::function<bool(int64_t)> stop;  // asked now and then with the regions tried so far; true stops the search

  // Positions of a region that begins and ends where less is live than anywhere near, at the most; and what is near.
  int farthest() const { return 4 * longest; }
  int near() const { return longest / 4; }
};

class Intervals {
 public:
  Intervals(const CutModel& model, const PathOptions& options);

  // Regions of an interval below a limit where some tensors are there in pieces before it: for each choice of what is
  // there in pieces behind it that is not among `known` that of least weight, or with `any` the first that there is.
  std::vector<PathRegion> cut(int begin, int end, Bytes limit, bool any, const Pieces& before,
                              const std::vector<Pieces>& known = {});
  // The same of the interval that was grown for one pace and number of stripes.
  std::vector<PathRegion> cut_so(PathRegion region, Bytes limit, const Pieces& before);
  // Whether the op at a position only changes in place what the one before made for it: no region begins or ends there.
  bool follows(int at) const;
  // Bytes beside what is live behind a region: parts of what its last op makes, while they are put together or added
  // up.
  Bytes copied(int end) const;
  // Whether an op may run whole below a limit: what it reads whole and is surely in pieces has to be joined before.
  bool single(int op, Bytes limit) const;
  // Whether it may where some tensors are there in pieces: it reads none of these.
  bool reads_whole(int op, const Pieces& before) const;
  // Which of these are still there behind a position.
  Pieces behind(const Pieces& before, int end) const;
  // Whether anything may be there in pieces.
  bool hands() const { return hands_; }
  // Whether parts of an op along two axes are alike in all that memory hangs on.
  bool alike(int op, int axis, int other) const;
  // Forgets what hangs on positions [begin, end), whose ops have changed.
  void forget(int begin, int end);
  // How the region that was grown last may be cut: paces, and the numbers of stripes to try of each.
  std::vector<std::pair<Pace, std::vector<int>>> paces();

  Regions& regions() { return regions_; }
  // Regions that were tried; and of these those that some of their steps told to be above the limit.
  int64_t evaluated() const { return evaluated_; }
  int64_t given_up() const { return given_up_; }
  // Of the region that was grown.
  RegionCost cost(int stripes, Pace pace, const Pieces& coming, const Pieces& leaving, Bytes limit = kNoLimit);

 private:
  // What a region that was grown may have to do with pieces.
  struct Borders {
    Pieces reads;  // what it reads from elsewhere and may come in pieces, and along which dimension; -1: along none
    std::vector<Pieces> leaves;  // choices of what it leaves in pieces
  };

  // What is known of one choice of what comes and leaves in pieces, for numbers of stripes.
  struct Known {
    Pieces coming, leaving;
    std::vector<RegionCost> costs;
  };

  // One interval along one axis of its last op: numbers of stripes are each tried once.
  struct Candidate {
    int axis;
    Pace pace;
    std::vector<int> stripes;  // to try, ascending
    Borders borders;
    std::vector<Known> known;
  };

  struct Interval {
    Bytes least = 0;  // what is there all the time
    bool grown = false;
    std::vector<Candidate> candidates;
  };

  Interval& interval_of(int begin, int end);
  bool first_below(Candidate& candidate, Bytes limit, bool any, PathRegion& region);
  bool may_join(int tensor, int begin, Bytes limit) const;
  Borders borders(int begin, int end) const;
  static bool comes(const Borders& borders, const Pieces& before, Pieces& coming);
  void find_candidates(int begin, int end, Interval& interval);

  const CutModel& m_;
  const PathOptions& o_;
  const bool hands_;
  Regions regions_;
  std::unordered_map<int64_t, Interval> intervals_;
  std::vector<std::vector<int>> conflicts_;
  std::vector<std::vector<std::pair<int, int>>> seen_;  // of the axes of an interval: who is cut, and along which
  int grown_ = -1;  // the axis along which the interval that is looked at was grown last
  int64_t evaluated_ = 0, given_up_ = 0;
};

}  // namespace tide
