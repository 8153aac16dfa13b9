#include "cut/path.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace tide {

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int kRounds = 32;
constexpr int kFirstStep = 32;

// One interval along one axis of its last op: what is known of it for numbers of stripes, each tried once.
struct Candidate {
  int axis;
  bool push;
  std::vector<int> stripes;  // to try, ascending
  std::vector<RegionCost> costs;
};

struct Interval {
  Bytes least = 0;  // what is there all the time
  bool grown = false;
  std::vector<Candidate> candidates;
};

class Path {
 public:
  Path(const CutModel& model, const PathOptions& options) : m_(model), o_(options), regions_(model) {}

  PathResult run() {
    PathResult best = uncut();
    Bytes low = std::max(o_.at_least, *std::max_element(ends_.begin(), ends_.end())), high = best.peak;
    Bytes step = std::max<Bytes>(1, high / kFirstStep);  // a little first, so that something stands when time is up
    for (int round = 0; round < kRounds && low < high && !stopped_; ++round) {
      const Bytes limit = std::max(low + (high - low) / 2, high - step);
      PathResult found;
      if (way(limit, found) && few(found)) {
        high = found.peak;
        best = std::move(found);
      } else if (!stopped_) {
        low = limit + 1;
      }
      step = high - low + 1;
    }
    PathResult polished = best;
    if (!stopped_) polish(polished);
    if (few(polished)) best = std::move(polished);
    best.evaluated = evaluated_;
    best.complete = !stopped_;
    return best;
  }

  std::vector<PathResult> front() {
    std::vector<PathResult> ways{uncut()};
    const PathResult lowest = run();
    while (!stopped_) {
      PathResult next;
      const Bytes limit = ways.back().peak - std::max<Bytes>(1, ways.back().peak / 10);
      if (limit <= lowest.peak || !way(limit, next)) break;
      ways.push_back(std::move(next));
    }
    if (lowest.peak < ways.back().peak) ways.push_back(lowest);
    for (PathResult& found : ways) {
      found.evaluated = evaluated_;
      found.complete = !stopped_;
    }
    return ways;
  }

 private:
  PathResult uncut() const {
    PathResult whole;
    whole.ops = static_cast<int>(m_.ops.size());
    for (const CutOp& op : m_.ops) whole.weight += op.weight;
    whole.peak = whole.ops ? *std::max_element(m_.footprint.begin(), m_.footprint.end()) : 0;
    return whole;
  }

  bool few(const PathResult& result) const {
    return result.regions.empty() || ((o_.most_ops == 0 || result.ops <= o_.most_ops) &&
                                      (o_.most_weight == 0 || result.weight <= o_.most_weight));
  }

  // The way of least weight below a limit.
  bool way(Bytes limit, PathResult& result) {
    const int n = static_cast<int>(m_.ops.size());
    std::vector<int64_t> weight(n + 1, kNever);
    std::vector<int> from(n + 1, -1);
    std::vector<PathRegion> by(n + 1);
    weight[0] = 0;
    for (int end = 1; end <= n; ++end) {
      if (m_.footprint[end - 1] <= limit && weight[end - 1] != kNever) {
        weight[end] = weight[end - 1] + m_.ops[end - 1].weight;
        from[end] = end - 1;
      }
      if (follows(end) || m_.before[end] + copied(end) > limit) continue;
      bool hot = false;
      for (int begin = end - 1; begin >= std::max(0, end - o_.longest); --begin) {
        hot = hot || m_.footprint[begin] > limit;
        if (!hot || weight[begin] == kNever || follows(begin) || m_.before[begin] > limit) continue;
        if (o_.stop && (++tried_ & 15) == 0 && o_.stop()) {
          stopped_ = true;
          return false;
        }
        PathRegion region;
        if (!cut(begin, end, limit, region)) continue;
        if (weight[end] == kNever || weight[begin] + region.weight < weight[end]) {
          weight[end] = weight[begin] + region.weight;
          from[end] = begin;
          by[end] = region;
        }
      }
    }
    if (weight[n] == kNever) return false;
    result = {};
    result.weight = weight[n];
    for (int at = n; at > 0; at = from[at]) {
      if (by[at].stripes > 1 && by[at].begin == from[at] && by[at].end == at) {
        result.regions.push_back(by[at]);
        result.peak = std::max(result.peak, by[at].peak);
        result.ops += by[at].ops;
      } else {
        result.peak = std::max(result.peak, m_.footprint[at - 1]);
        ++result.ops;
      }
    }
    std::reverse(result.regions.begin(), result.regions.end());
    return true;
  }

  // Whether the op at a position only changes in place what the one before made for it: no region begins or ends there.
  bool follows(int at) const {
    if (at == 0 || at >= static_cast<int>(m_.ops.size())) return false;
    const CutOp& op = m_.ops[at];
    if (op.reads.size() != 1 || !(op.view || !op.overwrites.empty())) return false;
    const CutTensor& read = m_.tensors[op.reads[0].tensor];
    return read.producer == at - 1 && read.readers.size() == 1 && !read.output;
  }

  // Bytes beside what is live behind a region: parts of what its last op makes, while they are put together or added
  // up.
  Bytes copied(int end) const {
    Bytes most = 0;
    for (const auto& made : m_.ops[end - 1].made) {
      const int storage = m_.tensors[made.tensor].storage;
      if (storage >= 0 && m_.storages[storage].last >= end) most = std::max(most, m_.tensors[made.tensor].size);
    }
    return most;
  }

  // The region of an interval of least weight below a limit.
  bool cut(int begin, int end, Bytes limit, PathRegion& best) {
    Interval& interval = interval_of(begin, end);
    if (interval.least > limit) return false;
    if (!interval.grown) find_candidates(begin, end, interval);
    for (Candidate& candidate : interval.candidates) {
      bool grown = false;
      for (size_t k = 0; k < candidate.stripes.size(); ++k) {
        if (k == candidate.costs.size()) candidate.costs.emplace_back();
        RegionCost& cost = candidate.costs[k];
        if (cost.ops == 0 && cost.peak <= limit) {
          if (!grown) regions_.grow(begin, end, end - 1, candidate.axis);
          grown = true;
          cost = regions_.cost(candidate.stripes[k], candidate.push, limit);
          ++evaluated_;
        }
        if (cost.peak > limit) continue;
        if (best.ops == 0 || cost.weight < best.weight)
          best = {begin, end, candidate.axis, candidate.push, candidate.stripes[k], cost.peak, cost.ops, cost.weight};
        if (!m_.weighed) break;  // more stripes are no fewer ops, but may be less time
      }
    }
    return best.ops > 0;
  }

  Interval& interval_of(int begin, int end) {
    const int64_t key = static_cast<int64_t>(begin) * (m_.ops.size() + 1) + end;
    const auto [at, fresh] = intervals_.try_emplace(key);
    if (fresh) at->second.least = regions_.throughout(begin, end);
    return at->second;
  }

  void find_candidates(int begin, int end, Interval& interval) {
    interval.grown = true;
    const CutOp& last = m_.ops[end - 1];
    auto& conflict = conflicts_[end - 1];
    conflict.resize(last.axes.size(), -1);
    for (size_t axis = 0; axis < last.axes.size(); ++axis) {
      if (last.axes[axis].grain <= 0 || begin <= conflict[axis]) continue;
      if (!regions_.grow(begin, end, end - 1, static_cast<int>(axis))) {
        conflict[axis] = begin;  // it stays one, whoever else is in the interval
        continue;
      }
      if (regions_.axes()[begin] < 0) continue;
      const int64_t pulled = regions_.most_stripes(false), pushed = regions_.most_stripes(true);
      for (const bool push : {false, true}) {
        if (push && pushed <= pulled) continue;
        Candidate candidate{static_cast<int>(axis), push, {}, {}};
        const int64_t parts = std::min<int64_t>(o_.most_stripes, push ? pushed : pulled);
        for (int64_t n = 2; n <= parts; n *= 2) candidate.stripes.push_back(static_cast<int>(n));
        if (parts > 2 && candidate.stripes.back() != parts) candidate.stripes.push_back(static_cast<int>(parts));
        interval.candidates.push_back(std::move(candidate));
      }
    }
  }

  // Every number of stripes for the regions of the best way: the lowest peak that they reach within what the way may
  // have, then of each region the least that keeps within it.
  void polish(PathResult& best) {
    std::vector<std::vector<std::pair<int, RegionCost>>> costs;
    std::vector<Bytes> peaks;
    Bytes peak = 0, singles = 0;
    int at = 0;
    for (const PathRegion& region : best.regions) {
      for (; at < region.begin; ++at) singles = std::max(singles, m_.footprint[at]);
      at = region.end;
      regions_.grow(region.begin, region.end, region.end - 1, region.axis);
      auto& tried = costs.emplace_back();
      Bytes lowest = region.peak;
      peaks.push_back(region.peak);
      const int parts = static_cast<int>(std::min<int64_t>(2 * region.stripes, regions_.most_stripes(region.push)));
      for (int stripes = 2; stripes <= std::min(parts, o_.most_stripes); ++stripes) {
        tried.emplace_back(stripes, regions_.cost(stripes, region.push));
        ++evaluated_;
        lowest = std::min(lowest, tried.back().second.peak);
        peaks.push_back(tried.back().second.peak);
      }
      peak = std::max(peak, lowest);
    }
    for (; at < static_cast<int>(m_.ops.size()); ++at) singles = std::max(singles, m_.footprint[at]);
    peak = std::max({peak, singles, o_.at_least});
    const PathResult rough = best;
    best = within(rough, costs, peak, singles);
    if (!m_.weighed || few(best)) return;
    std::sort(peaks.begin(), peaks.end());
    for (const Bytes higher : peaks) {
      if (higher <= peak || higher >= rough.peak) continue;
      best = within(rough, costs, higher, singles);
      if (few(best)) return;
    }
  }

  // A way whose regions have other numbers of stripes: of each the first, or if weights are known the lightest, whose
  // peak is no higher.
  PathResult within(PathResult way, const std::vector<std::vector<std::pair<int, RegionCost>>>& costs, Bytes peak,
                    Bytes singles) const {
    way.peak = singles;
    for (size_t k = 0; k < way.regions.size(); ++k) {
      PathRegion& region = way.regions[k];
      const PathRegion before = region;
      bool fits = m_.weighed && region.peak <= peak;
      for (const auto& [stripes, cost] : costs[k]) {
        if (cost.peak > peak || (fits && cost.weight >= region.weight)) continue;
        region.stripes = stripes;
        region.peak = cost.peak;
        region.ops = cost.ops;
        region.weight = cost.weight;
        if (!m_.weighed) break;
        fits = true;
      }
      way.ops += region.ops - before.ops;
      way.weight += region.weight - before.weight;
      way.peak = std::max(way.peak, region.peak);
    }
    return way;
  }

  const CutModel& m_;
  const PathOptions& o_;
  Regions regions_;
  const std::vector<Bytes> ends_{m_.before.front(), m_.before.back()};
  std::unordered_map<int64_t, Interval> intervals_;
  std::vector<std::vector<int>> conflicts_ = std::vector<std::vector<int>>(m_.ops.size());
  int64_t evaluated_ = 0;
  int64_t tried_ = 0;  // intervals
  bool stopped_ = false;
};

}  // namespace

PathResult best_path(const CutModel& model, const PathOptions& options) { return Path(model, options).run(); }

std::vector<PathResult> path_front(const CutModel& model, const PathOptions& options) {
  return Path(model, options).front();
}

}  // namespace tide
