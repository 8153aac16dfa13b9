#include "place/pack.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "base/hash.h"
#include "place/bound.h"

namespace tide::place {

Bytes height_of(const Problem& problem, const std::vector<Bytes>& offsets) {
  Bytes height = 0;
  for (size_t i = 0; i < offsets.size(); ++i) height = std::max(height, offsets[i] + problem.buffers[i].size);
  return height;
}

namespace {

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

// Puts stretches together that buffers kept apart connect.
std::vector<std::vector<int>> joined(const Problem& problem, const std::vector<std::vector<int>>& stretches) {
  std::vector<int> of(problem.buffers.size(), -1), root(stretches.size());
  std::iota(root.begin(), root.end(), 0);
  for (size_t s = 0; s < stretches.size(); ++s)
    for (int i : stretches[s]) of[i] = static_cast<int>(s);
  const auto find = [&](int s) {
    while (root[s] != s) s = root[s] = root[root[s]];
    return s;
  };
  for (const auto& [i, j] : problem.apart) {
    if (of[i] < 0 || of[j] < 0) continue;
    const int a = find(of[i]), b = find(of[j]);
    root[std::max(a, b)] = std::min(a, b);
  }
  std::vector<std::vector<int>> together(stretches.size());
  for (size_t s = 0; s < stretches.size(); ++s) {
    std::vector<int>& into = together[find(static_cast<int>(s))];
    into.insert(into.end(), stretches[s].begin(), stretches[s].end());
  }
  std::erase_if(together, [](const std::vector<int>& members) { return members.empty(); });
  return together;
}

}  // namespace

std::vector<std::vector<int>> split(const Problem& problem) {
  std::vector<int> by_start;
  for (int i = 0; i < static_cast<int>(problem.buffers.size()); ++i)
    if (!problem.empty(i)) by_start.push_back(i);
  std::stable_sort(by_start.begin(), by_start.end(), [&](int a, int b) { return problem.start(a) < problem.start(b); });
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
  if (!problem.apart.empty()) stretches = joined(problem, stretches);
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

namespace {

using Move = std::vector<int> (*)(const std::vector<int>&, const std::vector<char>&);

Best turn(const Problem& part, const std::vector<Rule>& rules, const Wheel& wheel, Bytes goal, Packing& counters) {
  struct Line {
    int rule;
    Move move;  // null before the first pass
    std::vector<int> order;
  };
  Placer placer(part);
  counters.work += placer.cost();  // for listing what meets what
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
}

// The beginnings of segments of `least` buffers or more, at the step of least load before there are thrice as many.
std::vector<int64_t> low_points(const Problem& problem, int least) {
  std::vector<int64_t> starts;
  for (int i = 0; i < static_cast<int>(problem.buffers.size()); ++i)
    if (!problem.empty(i)) starts.push_back(problem.start(i));
  std::sort(starts.begin(), starts.end());
  const Load all = load(problem);
  std::vector<int64_t> cuts;
  size_t begun = 0, since = 0;  // buffers that begin before this section; before the last cut
  size_t low = 0, begun_low = 0;
  Bytes lowest = -1;
  for (size_t k = 0; k < all.steps.size(); ++k) {
    while (begun < starts.size() && starts[begun] < all.steps[k]) ++begun;
    if (begun - since >= 3 * static_cast<size_t>(least) && lowest >= 0) {
      cuts.push_back(all.steps[low]);
      since = begun_low;
      lowest = -1;
    }
    if (begun - since >= static_cast<size_t>(least)) {
      if (lowest < 0 || all.bytes[k] < lowest) {
        lowest = all.bytes[k];
        low = k;
        begun_low = begun;
      }
    }
  }
  return cuts;
}

// Mirrors time.
Problem reversed(const Problem& problem) {
  Problem mirror = problem;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    for (int k = b.first; k < b.last; ++k) {
      Piece& p = mirror.pieces[b.first + b.last - 1 - k];
      p = problem.pieces[k];
      p.start = -problem.pieces[k].end;
      p.end = -problem.pieces[k].start;
    }
  }
  return mirror;
}

constexpr Bytes kGivenUp = std::numeric_limits<Bytes>::max();

// What windows of a sweep were answered: networks repeat a cell hundreds of times, and windows are then the same but
// for the step at which they begin. An answer is that of `turn`, to which nothing else of a window matters.
class Answers {
 public:
  // What decides a window's answer under given rules, or nothing if it is too large to be kept. Keys compare steps with
  // each other, and one with 0 (`Key::kTflite`); a buffer without pieces begins at 0.
  std::vector<int64_t> key(const Problem& window, Bytes goal) const {
    int64_t base = std::numeric_limits<int64_t>::max();
    bool empty = false;
    for (const Piece& p : window.pieces) base = std::min(base, p.start);
    for (const Buffer& b : window.buffers) empty |= b.first == b.last;
    std::vector<int64_t> key{goal, static_cast<int64_t>(window.buffers.size()), empty ? base : base != 0, empty};
    for (const Buffer& b : window.buffers) {
      key.insert(key.end(), {b.size, b.alignment, b.fixed, b.last - b.first});
      for (int k = b.first; k < b.last; ++k) {
        const Piece& p = window.pieces[k];
        key.insert(key.end(), {p.start - base, p.end - base, p.low, p.high});
      }
    }
    for (const Pair& p : window.pairs) key.insert(key.end(), {p.lower, p.upper, p.distance});
    return key;
  }

  const Best* find(const std::vector<int64_t>& key) const {
    const auto known = known_.find(key);
    return known == known_.end() ? nullptr : &known->second;
  }

  void keep(std::vector<int64_t>&& key, const Best& answer) {
    words_ += key.size() + answer.offsets.size();
    if (words_ <= kMostWords) known_.emplace(std::move(key), answer);
  }

 private:
  static constexpr size_t kMostWords = 8'000'000;  // 64 MB
  struct Hash {
    size_t operator()(const std::vector<int64_t>& words) const {
      uint64_t h = words.size();
      for (int64_t w : words) h = mix(h ^ static_cast<uint64_t>(w));
      return h;
    }
  };
  std::unordered_map<std::vector<int64_t>, Best, Hash> known_;
  size_t words_ = 0;
};

// By the wheel, unless the same was asked before.
Best answer(const Problem& window, const std::vector<Rule>& rules, const Sweep& how, Bytes goal, Answers& answers,
            Packing& counters) {
  std::vector<int64_t> key = answers.key(window, goal);
  counters.work += static_cast<int64_t>(key.size());
  if (const Best* known = how.recall ? answers.find(key) : nullptr) return *known;
  const bool whole = counters.work <= how.work - how.wheel.work;  // else it is cut short
  Wheel wheel = how.wheel;
  wheel.work = std::min(how.work, counters.work + wheel.work);
  const Best found = turn(window, rules, wheel, goal, counters);
  if (whole && how.recall) answers.keep(std::move(key), found);
  return found;
}

// Given up where the work is spent or the ceiling reached before everything is placed.
Best sweep_once(const Problem& part, const std::vector<Rule>& rules, const Sweep& how, int least, Bytes goal,
                Bytes ceiling, Answers& answers, Packing& counters) {
  const Best given_up{std::vector<Bytes>(part.buffers.size(), 0), kGivenUp, 0};
  std::vector<int64_t> begins = low_points(part, least);
  begins.insert(begins.begin(), std::numeric_limits<int64_t>::min());
  begins.push_back(std::numeric_limits<int64_t>::max());
  std::vector<int> by_start(part.buffers.size());
  std::iota(by_start.begin(), by_start.end(), 0);
  std::stable_sort(by_start.begin(), by_start.end(), [&](int a, int b) { return part.start(a) < part.start(b); });
  std::vector<size_t> first;            // per segment, where its buffers begin in `by_start`
  std::vector<std::vector<int>> cross;  // per segment, what crosses its begin
  std::vector<int> live;
  for (size_t k = 0, at = 0; k + 1 < begins.size(); ++k) {
    std::erase_if(live, [&](int i) { return part.end(i) <= begins[k]; });
    cross.push_back(live);
    first.push_back(at);
    for (; at < by_start.size() && part.start(by_start[at]) < begins[k + 1]; ++at) live.push_back(by_start[at]);
  }
  first.push_back(by_start.size());
  std::vector<int> fixed;  // what comes before them has to leave their bytes free
  for (int i : by_start)
    if (part.buffers[i].fixed >= 0) fixed.push_back(i);

  Best best{std::vector<Bytes>(part.buffers.size(), 0), 0, 0};
  for (size_t k = 0; k < cross.size(); ++k) {
    if (counters.work > how.work) return given_up;
    Bytes lowest = -1;
    for (size_t back = 0; back <= 7; back = 2 * back + 1) {
      const size_t from = k - std::min(k, back);
      std::vector<int> members = cross[from];
      members.insert(members.end(), by_start.begin() + first[from], by_start.begin() + first[k + 1]);
      int64_t reach = begins[from];
      for (int i : members) reach = std::max(reach, part.end(i));
      for (int i : fixed)
        if (part.start(i) >= begins[k + 1] && part.start(i) < reach) members.push_back(i);
      Problem window = part_of(part, members);
      for (size_t j = 0; j < cross[from].size(); ++j) window.buffers[j].fixed = best.offsets[members[j]];
      const Best found = answer(window, rules, how, goal, answers, counters);
      if (lowest < 0 || found.height < lowest) {
        lowest = found.height;
        for (size_t j = 0; j < members.size(); ++j) best.offsets[members[j]] = found.offsets[j];
      }
      if (lowest <= goal || from == 0 || counters.work > how.work) break;
    }
    goal = std::max(goal, lowest);
    if (ceiling >= 0 && lowest >= ceiling) return given_up;
  }
  best.height = height_of(part, best.offsets);
  return best;
}

}  // namespace

Packing squeaky(const Problem& problem, const std::vector<Rule>& rules, const Wheel& wheel) {
  return pack_stretches(problem, [&](const Problem& part, Bytes goal, Packing& counters) {
    return turn(part, rules, wheel, goal, counters);
  });
}

Packing sweep(const Problem& problem, const std::vector<Rule>& rules, const Sweep& how) {
  const Problem mirror = reversed(problem);
  Answers answers;
  Packing best;
  int64_t passes = 0, work = 0;
  for (const int least : how.segments) {
    for (const bool back : {false, true}) {
      const Bytes ceiling = best.rule < 0 ? -1 : best.height;
      Packing found = pack_stretches(back ? mirror : problem, [&](const Problem& part, Bytes goal, Packing&) {
        Packing own;
        own.work = work;
        const Best result = sweep_once(part, rules, how, least, goal, ceiling, answers, own);
        passes += own.passes;
        work = own.work;
        return result;
      });
      if (found.height < kGivenUp && (best.rule < 0 || found.height < best.height)) best = std::move(found);
      if (best.rule >= 0 && best.height == best.bound) break;
    }
    if ((best.rule >= 0 && best.height == best.bound) || work > how.work) break;
  }
  if (best.rule < 0) best = portfolio(problem, {rules[0]}, 0);
  best.passes = passes;
  best.work = work;
  return best;
}

}  // namespace tide::place
