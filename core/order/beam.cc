#include "order/beam.h"

#include <algorithm>
#include <unordered_map>

namespace tide {

namespace {

struct BeamState {
  StateKey key;
  Bytes f, peak;
  int trail;  // where its last step is in the trail
};

struct BeamStep {
  int parent;
  int begin, end;  // macros that ran, in `steps`
};

}  // namespace

BeamResult beam(const Problem& p, int width, Bytes bound, Bytes limit, uint64_t seed,
                const std::function<bool()>& stop) {
  BeamResult result;
  Walker walker(p);
  Closure closure(walker);
  std::vector<BeamStep> trail{{-1, 0, 0}};
  std::vector<int> steps, ran, pending, order;

  std::vector<BeamState> level;
  Bytes peak = 0;
  pending = walker.ready();
  Bytes f = closure.close(p.start, bound, pending, ran, peak);
  steps = ran;
  trail[0].end = static_cast<int>(steps.size());
  level.push_back({walker.key(), f, peak, 0});

  struct BeamChild {
    int parent;
    Bytes f, peak;
    uint64_t tie;
    int begin, end;
  };
  Bytes best_peak = limit;
  int best_trail = -1;
  std::vector<Outcome> outcomes;
  std::vector<int> blocked;
  while (!level.empty()) {
    std::vector<BeamChild> children;
    std::unordered_map<uint64_t, int> seen;
    const size_t level_steps = steps.size();
    for (int i = 0; i < static_cast<int>(level.size()); ++i) {
      const BeamState& node = level[i];
      walker.jump(node.key.first_word, node.key.words.data(), static_cast<int>(node.key.words.size()));
      if (walker.done() == p.n) {
        if (node.peak < best_peak || best_trail < 0) {
          best_peak = node.peak;
          best_trail = node.trail;
        }
        continue;
      }
      ++result.states;
      result.work = walker.work();
      if ((result.states & 63) == 0 && stop()) return result;
      order = walker.ready();
      std::sort(order.begin(), order.end());
      walker.looked_at(order.size());
      outcomes.clear();
      blocked.clear();
      for (int u : order) {
        outcomes.push_back(walker.outcome(u));
        if (outcomes.back().change <= 0) blocked.push_back(u);
      }
      const Bytes free_up_to = std::max(node.peak, bound);
      for (size_t k = 0; k < order.size(); ++k) {
        const int u = order[k];
        const Outcome& o = outcomes[k];
        const Bytes before = std::max(node.peak, node.f + o.hill);
        if (before >= best_peak) continue;
        ran.assign(1, u);
        walker.run(u);
        pending.clear();
        walker.neighbours(u, pending);
        closure.blocked = blocked;
        if (o.change < 0 || before > free_up_to) pending.insert(pending.end(), blocked.begin(), blocked.end());
        Bytes highest = before;
        const Bytes after = closure.close(node.f + o.change, std::max(before, bound), pending, ran, highest);
        const auto [at, fresh] = seen.try_emplace(walker.hash(), static_cast<int>(children.size()));
        if (fresh || std::max(highest, bound) < std::max(children[at->second].peak, bound)) {
          const uint64_t tie = seed == 0 ? children.size() : scatter(static_cast<int>(walker.hash() ^ seed));
          const int begin = static_cast<int>(steps.size());
          steps.insert(steps.end(), ran.begin(), ran.end());
          const BeamChild child{i, after, highest, tie, begin, static_cast<int>(steps.size())};
          if (fresh)
            children.push_back(child);
          else
            children[at->second] = child;
        }
        for (auto m = ran.rbegin(); m != ran.rend(); ++m) walker.take_back(*m);
      }
    }
    const auto better = [&](const BeamChild& a, const BeamChild& b) {
      const Bytes pa = std::max(a.peak, bound), pb = std::max(b.peak, bound);
      if (pa != pb) return pa < pb;
      if (a.f != b.f) return a.f < b.f;
      return a.tie < b.tie;
    };
    if (static_cast<int>(children.size()) > width) {
      std::nth_element(children.begin(), children.begin() + width, children.end(), better);
      children.resize(width);
    }
    std::sort(children.begin(), children.end(), better);
    // Keep only the steps of the children that stay.
    std::vector<int> kept;
    std::vector<BeamState> next;
    for (BeamChild& c : children) {
      const BeamState& from = level[c.parent];
      walker.jump(from.key.first_word, from.key.words.data(), static_cast<int>(from.key.words.size()));
      for (int k = c.begin; k < c.end; ++k) walker.run(steps[k]);
      const int begin = static_cast<int>(level_steps + kept.size());
      kept.insert(kept.end(), steps.begin() + c.begin, steps.begin() + c.end);
      trail.push_back({from.trail, begin, static_cast<int>(level_steps + kept.size())});
      next.push_back({walker.key(), c.f, c.peak, static_cast<int>(trail.size()) - 1});
    }
    steps.resize(level_steps);
    steps.insert(steps.end(), kept.begin(), kept.end());
    level = std::move(next);
  }
  result.work = walker.work();
  if (best_trail < 0) return result;
  std::vector<int> path;
  for (int at = best_trail; at >= 0; at = trail[at].parent) path.push_back(at);
  for (auto at = path.rbegin(); at != path.rend(); ++at)
    result.macros.insert(result.macros.end(), steps.begin() + trail[*at].begin, steps.begin() + trail[*at].end);
  result.peak = best_peak;
  return result;
}

}  // namespace tide
