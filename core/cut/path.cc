#include "cut/path.h"

#include <algorithm>

#include "cut/passage.h"

namespace tide {

namespace {

constexpr int kRounds = 32;
constexpr int kFirstStep = 32;
constexpr int kNearly = 256;

class Path {
 public:
  Path(const CutModel& model, const PathOptions& options, std::vector<std::vector<int>> before)
      : o_(options), m_(model), orders_(!before.empty()), precedence_(given(model, std::move(before))) {}

  PathResult run() {
    PathResult best = uncut();
    if (o_.most_ops || o_.most_weight || m_.weighed) {
      for (const bool coarse : {true, false})
        narrow(best, [&](Bytes limit, PathResult& found) { return way(limit, found, coarse) && few(found); });
      PathResult lighter;
      if (!stopped_ && way(best.peak, lighter) && lighter.weight < best.weight) best = std::move(lighter);
    } else {
      in_stages(best);
    }
    PathResult polished = best;
    if (!stopped_) polish(polished);
    if (few(polished)) best = std::move(polished);
    best.evaluated = intervals_.evaluated();
    best.given_up = intervals_.given_up();
    best.complete = !stopped_;
    return best;
  }

  std::vector<PathResult> within(const std::vector<Bytes>& limits) {
    std::vector<PathResult> ways;
    for (const Bytes limit : limits) {
      PathResult found;
      if (!stopped_ && way(limit, found)) ways.push_back(std::move(found));
    }
    for (PathResult& found : ways) {
      found.evaluated = intervals_.evaluated();
      found.given_up = intervals_.given_up();
      found.complete = !stopped_;
    }
    return ways;
  }

  // Coarse ones first; fine ones take their place as far down as time lasts.
  std::vector<PathResult> front() {
    PathResult rough = uncut();
    narrow(rough, [&](Bytes limit, PathResult& found) { return way(limit, found, true); });
    std::vector<PathResult> ways{uncut()};
    descend(ways, rough.peak, true);
    ways.push_back(std::move(rough));
    const PathResult lowest = run();
    std::vector<PathResult> fine{uncut()};
    descend(fine, lowest.peak, false);
    if (stopped_) {
      for (PathResult& found : ways)
        if (found.peak < fine.back().peak) fine.push_back(std::move(found));
    }
    ways = std::move(fine);
    if (lowest.peak < ways.back().peak) ways.push_back(lowest);
    for (PathResult& found : ways) {
      found.evaluated = intervals_.evaluated();
      found.given_up = intervals_.given_up();
      found.complete = !stopped_;
    }
    return ways;
  }

 private:
  static std::vector<std::vector<int>> given(const CutModel& model, std::vector<std::vector<int>> before) {
    before.resize(model.ops.size());
    return before;
  }

  // Adds ways below the last one, under limits that fall by a tenth at least, down to a peak.
  void descend(std::vector<PathResult>& ways, Bytes lowest, bool coarse) {
    while (!stopped_) {
      PathResult next;
      const Bytes limit = ways.back().peak - std::max<Bytes>(1, ways.back().peak / 10);
      if (limit <= lowest || !way(limit, next, coarse)) break;
      ways.push_back(std::move(next));
    }
  }

  // Lowers the peak by bisection over limits below which a way is looked for, until it is nearly as low as can be.
  template <class Look>
  void narrow(PathResult& best, const Look& look, Bytes nearly = 0) {
    Bytes low = std::max(o_.at_least, *std::max_element(ends_.begin(), ends_.end())), high = best.peak;
    Bytes step = std::max<Bytes>(1, high / kFirstStep);  // a little first, so that something stands when time is up
    for (int round = 0; round < kRounds && low + nearly < high && !stopped_; ++round) {
      const Bytes limit = std::max(low + (high - low) / 2, high - step);
      PathResult found;
      if (look(limit, found)) {
        high = found.peak;
        best = std::move(found);
      } else if (!stopped_) {
        low = limit + 1;
      }
      step = high - low + 1;
    }
  }

  void in_stages(PathResult& best) {
    const std::vector<int> own = passage_.order();
    const auto stage = [&](bool coarse, bool gather) {
      narrow(
          best,
          [&](Bytes limit, PathResult& found) {
            const std::vector<int> before = passage_.order();
            const bool passed = passage_.pass(limit, coarse, gather);
            stopped_ = stopped_ || passage_.stopped();
            if (passed) found = whole_way(passage_.regions());
            if (!passed) passage_.restore(before);
            return passed;
          },
          coarse ? best.peak / kNearly : 0);
    };
    stage(true, false);
    if (orders_) stage(true, true);
    passage_.restore(own);
    stage(false, false);
    if (stopped_ || best.regions.empty()) return;
    passage_.restore(best.order);
    PathResult lighter;
    if (way(best.peak, lighter)) best = std::move(lighter);
  }

  // A way of regions, and of whole ops between them.
  PathResult whole_way(std::vector<PathRegion> regions) const {
    PathResult result;
    result.order = passage_.order();
    result.regions = std::move(regions);
    int at = 0;
    const auto singles = [&](int end) {
      for (; at < end; ++at) {
        result.peak = std::max(result.peak, m_.footprint[at]);
        result.weight += m_.ops[at].weight;
        ++result.ops;
      }
    };
    for (const PathRegion& region : result.regions) {
      singles(region.begin);
      at = region.end;
      result.peak = std::max(result.peak, region.peak);
      result.weight += region.weight;
      result.ops += region.ops;
      for (const InPieces& left : region.leaving) result.handed.push_back(left.tensor);
    }
    singles(static_cast<int>(m_.ops.size()));
    return result;
  }

  PathResult uncut() const {
    PathResult whole;
    whole.order = passage_.order();
    whole.ops = static_cast<int>(m_.ops.size());
    for (const CutOp& op : m_.ops) whole.weight += op.weight;
    whole.peak = whole.ops ? *std::max_element(m_.footprint.begin(), m_.footprint.end()) : 0;
    return whole;
  }

  bool few(const PathResult& result) const {
    return result.regions.empty() || ((o_.most_ops == 0 || result.ops <= o_.most_ops) &&
                                      (o_.most_weight == 0 || result.weight <= o_.most_weight));
  }

  // The lightest way to a position with some pieces there: the region that reaches it (stripes 1: an op), and which of
  // the ways to where that begins.
  struct Lightest {
    Pieces pieces;
    int64_t weight = 0;
    PathRegion by;
    int from = 0;
  };
  using Lightests = std::vector<std::vector<Lightest>>;  // of each position

  static void lighten(std::vector<Lightest>& ways, Lightest way) {
    const auto at =
        std::find_if(ways.begin(), ways.end(), [&](const auto& other) { return other.pieces == way.pieces; });
    if (at == ways.end())
      ways.push_back(std::move(way));
    else if (way.weight < at->weight)
      *at = std::move(way);
  }

  // The way of least weight below a limit; `coarse`: its regions begin and end only where less is live than beside.
  bool way(Bytes limit, PathResult& result, bool coarse = false) {
    const int n = static_cast<int>(m_.ops.size());
    Lightests ways(n + 1);
    ways[0].emplace_back();
    for (int end = 1; end <= n; ++end) {
      const bool below = intervals_.single(end - 1, limit);
      if (below || o_.above)
        for (size_t k = 0; k < ways[end - 1].size(); ++k) {
          const Lightest& before = ways[end - 1][k];
          if (intervals_.reads_whole(end - 1, before.pieces))
            lighten(ways[end], {intervals_.behind(before.pieces, end),
                                before.weight + m_.ops[end - 1].weight + (below ? 0 : o_.above),
                                {},
                                static_cast<int>(k)});
        }
      if (intervals_.follows(end) || m_.before[end] + intervals_.copied(end) > limit) continue;
      if (coarse && !passage_.valley(end)) continue;
      bool hot = false;
      for (int begin = end - 1; begin >= passage_.first(end); --begin) {
        hot = hot || !intervals_.single(begin, limit);
        if (!hot || ways[begin].empty() || intervals_.follows(begin) || m_.before[begin] > limit) continue;
        if ((coarse && !passage_.valley(begin)) || (end - begin > o_.longest && !passage_.basin(begin))) continue;
        if (o_.stop && (++tried_ & 15) == 0 && o_.stop(intervals_.evaluated())) {
          stopped_ = true;
          return false;
        }
        for (size_t k = 0; k < ways[begin].size(); ++k) {
          const Lightest& before = ways[begin][k];
          for (const PathRegion& region : intervals_.cut(begin, end, limit, false, before.pieces))
            lighten(ways[end], {region.behind, before.weight + region.weight, region, static_cast<int>(k)});
        }
      }
    }
    if (ways[n].empty()) return false;
    std::vector<PathRegion> regions;
    for (int at = n, k = 0; at > 0;) {
      const Lightest& last = ways[at][k];
      k = last.from;
      at = last.by.stripes > 1 ? last.by.begin : at - 1;
      if (last.by.stripes > 1) regions.push_back(last.by);
    }
    std::reverse(regions.begin(), regions.end());
    result = whole_way(std::move(regions));
    return true;
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
      intervals_.regions().grow(region.begin, region.end, region.end - 1, region.axis);
      auto& tried = costs.emplace_back();
      Bytes lowest = region.peak;
      peaks.push_back(region.peak);
      const int parts =
          static_cast<int>(std::min<int64_t>(2 * region.stripes, intervals_.regions().most_stripes(region.pace)));
      for (int stripes = 2; stripes <= std::min(parts, o_.most_stripes); ++stripes) {
        tried.emplace_back(stripes, intervals_.cost(stripes, region.pace, region.coming, region.leaving));
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

  const PathOptions& o_;
  CutModel m_;
  const bool orders_;  // whether others than the model's own are looked at
  Precedence precedence_;
  Intervals intervals_{m_, o_};
  Passage passage_{m_, precedence_, intervals_, o_};
  const std::vector<Bytes> ends_{m_.before.front(), m_.before.back()};
  int64_t tried_ = 0;  // intervals
  bool stopped_ = false;
};

}  // namespace

PathResult best_path(const CutModel& model, const PathOptions& options, std::vector<std::vector<int>> before) {
  return Path(model, options, std::move(before)).run();
}

std::vector<PathResult> path_front(const CutModel& model, const PathOptions& options) {
  return Path(model, options, {}).front();
}

std::vector<PathResult> paths_within(const CutModel& model, const PathOptions& options,
                                     const std::vector<Bytes>& limits) {
  return Path(model, options, {}).within(limits);
}

}  // namespace tide
