#include "place_pack.h"

#include <algorithm>
#include <numeric>

namespace tide::place {

namespace {

Bytes height_of(const Problem& problem, const std::vector<Bytes>& offsets) {
  Bytes height = 0;
  for (size_t i = 0; i < offsets.size(); ++i) height = std::max(height, offsets[i] + problem.buffers[i].size);
  return height;
}

struct Best {
  std::vector<Bytes> offsets;
  Bytes height = -1;  // none yet
  int rule = -1;

  // Takes the offsets if they are lower.
  bool take(std::vector<Bytes>& found, Bytes at, int by) {
    if (height >= 0 && at >= height) return false;
    offsets.swap(found);
    height = at;
    rule = by;
    return true;
  }
};

// Packs stretch by stretch, the one of largest load first; `one` gets a stretch and a height that is good enough.
template <class One>
Packing pack_stretches(const Problem& problem, One one) {
  Packing result;
  result.bound = result.height = load_bound(problem);
  for (const Buffer& b : problem.buffers) result.offsets.push_back(std::max<Bytes>(b.fixed, 0));
  struct Stretch {
    Bytes bound;
    std::vector<int> members;
    Problem part;
  };
  std::vector<Stretch> stretches;
  for (std::vector<int>& members : split(problem)) {
    Problem part = part_of(problem, members);
    const Bytes bound = load_bound(part);
    stretches.push_back({bound, std::move(members), std::move(part)});
  }
  std::stable_sort(stretches.begin(), stretches.end(),
                   [](const Stretch& a, const Stretch& b) { return a.bound > b.bound; });
  for (const Stretch& s : stretches) {
    const Best best = one(s.part, result.height, result);
    for (size_t k = 0; k < s.members.size(); ++k) result.offsets[s.members[k]] = best.offsets[k];
    if (result.rule < 0 || best.height > result.height) result.rule = best.rule;
    result.height = std::max(result.height, best.height);
    ++result.stretches;
  }
  return result;
}

}  // namespace

std::vector<std::vector<int>> split(const Problem& problem) {
  std::vector<int> by_start;
  for (int i = 0; i < static_cast<int>(problem.buffers.size()); ++i)
    if (!problem.empty(i)) by_start.push_back(i);
  std::stable_sort(by_start.begin(), by_start.end(),
                   [&](int a, int b) { return problem.start(a) < problem.start(b); });
  std::vector<std::vector<int>> stretches;
  int64_t until = 0;
  for (int i : by_start) {
    if (stretches.empty() || problem.start(i) >= until) {
      stretches.emplace_back();
      until = problem.end(i);
    }
    stretches.back().push_back(i);
    until = std::max(until, problem.end(i));
  }
  for (std::vector<int>& members : stretches) std::sort(members.begin(), members.end());
  return stretches;
}

Packing portfolio(const Problem& problem, const std::vector<Rule>& rules, int64_t work) {
  return pack_stretches(problem, [&](const Problem& part, Bytes goal, Packing& counters) {
    Placer placer(part);
    Orders orders(part);
    counters.pairs += placer.pairs();
    Best best;
    std::vector<Bytes> found;
    for (size_t r = 0; r < rules.size(); ++r) {
      if (best.rule >= 0 && counters.work + placer.cost() > work) break;
      ++counters.passes;
      counters.work += placer.cost();
      if (!placer.place(orders.by(rules[r].key), rules[r].best_fit, best.height, found)) continue;
      best.take(found, height_of(part, found), static_cast<int>(r));
      if (best.height <= goal) break;
    }
    return best;
  });
}

std::vector<int> to_front(const std::vector<int>& order, const std::vector<char>& blamed) {
  std::vector<int> moved = order;
  std::stable_partition(moved.begin(), moved.end(), [&](int i) { return blamed[i]; });
  return moved;
}

std::vector<int> a_quarter_forward(const std::vector<int>& order, const std::vector<char>& blamed) {
  const int step = static_cast<int>(order.size()) / 4 + 1;
  std::vector<std::pair<int, int>> ranked;
  for (int k = 0; k < static_cast<int>(order.size()); ++k) ranked.emplace_back(k - (blamed[order[k]] ? step : 0), k);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int> moved;
  for (const auto& [rank, k] : ranked) moved.push_back(order[k]);
  return moved;
}

Packing squeaky(const Problem& problem, const std::vector<Rule>& rules, const Wheel& wheel) {
  using Move = std::vector<int> (*)(const std::vector<int>&, const std::vector<char>&);
  struct Line {
    int rule;
    Move move;  // null before the first pass
    std::vector<int> order;
  };
  return pack_stretches(problem, [&](const Problem& part, Bytes goal, Packing& counters) {
    Placer placer(part);
    Orders orders(part);
    Best best;
    std::vector<Bytes> found;
    std::vector<char> blamed(part.buffers.size());
    std::vector<Line> lines;
    for (size_t r = 0; r < rules.size(); ++r) lines.push_back({static_cast<int>(r), nullptr, orders.by(rules[r].key)});
    for (int round = 0; round < wheel.rounds; ++round) {
      std::vector<Line> advanced;
      for (const Line& line : lines) {
        if (best.rule >= 0 && counters.work + placer.cost() > wheel.work) return best;
        ++counters.passes;
        counters.work += placer.cost();
        placer.place(line.order, rules[line.rule].best_fit, -1, found);
        for (size_t i = 0; i < found.size(); ++i) blamed[i] = found[i] + part.buffers[i].size > goal;
        if (best.take(found, height_of(part, found), line.rule) && best.height <= goal) return best;
        for (const Move move : {to_front, a_quarter_forward})
          if (!line.move || line.move == move) advanced.push_back({line.rule, move, move(line.order, blamed)});
      }
      lines = std::move(advanced);
    }
    return best;
  });
}

}  // namespace tide::place
