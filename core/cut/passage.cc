#include "cut/passage.h"

#include <algorithm>
#include <numeric>

namespace tide {

namespace {

constexpr int kTensors = 8;  // that regions are grown from at one place
constexpr size_t kWays = 8;  // to one position

}  // namespace

Passage::Passage(CutModel& model, Precedence& precedence, Intervals& intervals, const PathOptions& options)
    : m_(model),
      precedence_(precedence),
      intervals_(intervals),
      o_(options),
      n_(static_cast<int>(model.ops.size())),
      order_(n_),
      ways_(n_ + 1),
      taken_(n_) {
  std::iota(order_.begin(), order_.end(), 0);
}

bool Passage::pass(Bytes limit, bool coarse, bool gather) {
  fixed_.clear();
  std::fill(taken_.begin(), taken_.end(), 0);
  stopped_ = stopped_ || (o_.stop && o_.stop(intervals_.evaluated()));
  int at = reach(limit, coarse, 0);
  while (at < n_ && gather && !stopped_) {
    const int changed = this->gather(limit, at);
    if (changed < 0 || stopped_) return false;
    const int next = reach(limit, coarse, changed);
    if (next <= at) return false;
    at = next;
  }
  return at == n_ && !stopped_;
}

// The furthest position, where those up to `from` are known.
int Passage::reach(Bytes limit, bool coarse, int from) {
  ways_[0].assign(1, {});
  int furthest = 0;
  for (int end = 1; end <= n_; ++end) {
    if (end > from) step(end, limit, coarse);
    if (!ways_[end].empty()) furthest = end;
    if (stopped_ || furthest + o_.farthest() < end) {
      for (int at = end; at <= n_; ++at) ways_[at].clear();
      break;
    }
  }
  return furthest;
}

void Passage::add(int end, Pieces pieces, const PathRegion& by, int from) {
  auto& ways = ways_[end];
  const auto same = [&](const Reached& way) { return way.pieces == pieces; };
  if (ways.size() < kWays && std::none_of(ways.begin(), ways.end(), same))
    ways.push_back({std::move(pieces), by, from});
}

void Passage::step(int end, Bytes limit, bool coarse) {
  ways_[end].clear();
  const PathRegion* last = fixed_around(end - 1);
  if (last) {
    if (end != last->end || ways_[last->begin].empty()) return;
    if (!intervals_.hands()) return add(end, {}, *last, 0);
    intervals_.regions().grow(last->begin, last->end, last->end - 1, last->axis);
    for (size_t k = 0; k < ways_[last->begin].size(); ++k)
      for (const PathRegion& region : intervals_.cut_so(*last, limit, ways_[last->begin][k].pieces))
        add(end, region.behind, region, static_cast<int>(k));
    return;
  }
  if (intervals_.single(end - 1, limit))
    for (size_t k = 0; k < ways_[end - 1].size(); ++k) {
      const Pieces& pieces = ways_[end - 1][k].pieces;
      if (intervals_.reads_whole(end - 1, pieces)) add(end, intervals_.behind(pieces, end), {}, static_cast<int>(k));
    }
  const auto enough = [&] { return !intervals_.hands() && !ways_[end].empty(); };
  if (enough() || intervals_.follows(end) || m_.before[end] + intervals_.copied(end) > limit ||
      (coarse && !valley(end)))
    return;
  bool hot = false;
  for (int begin = end - 1; begin >= first(end); --begin) {
    if (taken_[begin]) break;
    hot = hot || !intervals_.single(begin, limit);
    if (!hot || ways_[begin].empty() || intervals_.follows(begin) || m_.before[begin] > limit) continue;
    if ((coarse && !valley(begin)) || (end - begin > o_.longest && !basin(begin))) continue;
    if (stop()) return ways_[end].clear();
    cut(begin, end, limit);
    if (enough()) return;
  }
}

// Ways to a position by regions that begin at another one.
void Passage::cut(int begin, int end, Bytes limit) {
  for (size_t k = 0; k < ways_[begin].size(); ++k) {
    std::vector<Pieces> known;
    for (const Reached& way : ways_[end]) known.push_back(way.pieces);
    if (known.size() >= kWays) return;
    for (const PathRegion& region : intervals_.cut(begin, end, limit, true, ways_[begin][k].pieces, known))
      add(end, region.behind, region, static_cast<int>(k));
  }
}

// How far ops run whole below a limit from a position on; `pieces` are what is there then.
int Passage::singles(int from, int end, Bytes limit, Pieces& pieces) const {
  int at = from;
  while (at < end && intervals_.single(at, limit) && intervals_.reads_whole(at, pieces)) {
    ++at;
    pieces = intervals_.behind(pieces, at);
  }
  return at;
}

bool Passage::basin(int at) const {
  const auto begin = m_.before.begin() + std::max(0, at - o_.near());
  const auto end = m_.before.begin() + std::min(n_, at + o_.near()) + 1;
  return at == 0 || at == n_ || std::min_element(begin, end) == m_.before.begin() + at;
}

int Passage::first(int end) const { return std::max(0, end - (basin(end) ? o_.farthest() : o_.longest)); }

bool Passage::valley(int at) const {
  if (at == 0 || at == n_) return true;
  const Bytes here = m_.before[at], left = m_.before[at - 1], right = m_.before[at + 1];
  return here <= left && here <= right && (here < left || here < right);
}

const PathRegion* Passage::fixed_around(int at) const {
  for (const PathRegion& region : fixed_)
    if (region.begin <= at && at < region.end) return &region;
  return nullptr;
}

std::vector<PathRegion> Passage::regions() const {
  std::vector<PathRegion> result;
  for (int at = n_, k = 0; at > 0;) {
    const Reached& way = ways_[at][k];
    k = way.from;
    if (way.by.stripes > 1) result.push_back(way.by);
    at = way.by.stripes > 1 ? way.by.begin : at - 1;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

// Other orders in which more can be reached: the first position that changed in the one that is taken; -1: none.
int Passage::gather(Bytes limit, int at) {
  Attempt best;
  best.reached = at;
  for (const int tensor : live_tensors(at)) {
    const CutOp& maker = m_.ops[m_.tensors[tensor].producer];
    std::vector<int> along;
    for (const auto& made : maker.made)
      if (made.tensor == tensor) along = made.axes;
    std::vector<int> done;
    for (size_t dim = 0; dim < along.size(); ++dim) {
      const int axis = along[dim];
      if (axis < 0 || std::any_of(
                          done.begin(), done.end(),
                          [&](int other) { return intervals_.alike(m_.tensors[tensor].producer, axis, other); }))
        continue;
      done.push_back(axis);
      Growth growth(m_, precedence_, taken_, o_.longest);
      for (const GrownSet& set : growth.sets(tensor, static_cast<int>(dim))) {
        if (stop()) return -1;
        try_set(set, limit, at, best);
      }
    }
  }
  if (best.order.empty()) return -1;
  int changed = 0;
  while (changed < n_ && best.order[changed] == changed) ++changed;
  apply(best.order);
  fixed_.push_back(best.region);
  for (int op = best.region.begin; op < best.region.end; ++op) taken_[op] = true;
  return std::min(changed, best.region.begin);
}

// Tensors that are there at a step and are made by an op that can be cut, the largest first.
std::vector<int> Passage::live_tensors(int at) const {
  std::vector<int> result;
  for (size_t t = 0; t < m_.tensors.size(); ++t) {
    const CutTensor& tensor = m_.tensors[t];
    if (tensor.producer < 0 || tensor.storage < 0 || taken_[tensor.producer] || tensor.readers.empty()) continue;
    const CutStorage& storage = m_.storages[tensor.storage];
    if (storage.first <= at && at <= storage.last) result.push_back(static_cast<int>(t));
  }
  std::stable_sort(result.begin(), result.end(), [&](int a, int b) { return m_.tensors[a].size > m_.tensors[b].size; });
  if (result.size() > kTensors) result.resize(kTensors);
  return result;
}

bool Passage::keeps_fixed(const std::vector<int>& order) const {
  for (const PathRegion& region : fixed_) {
    const auto first = std::find(order.begin(), order.end(), region.begin);
    if (order.end() - first < region.end - region.begin) return false;
    for (int k = 0; k < region.end - region.begin; ++k)
      if (first[k] != region.begin + k) return false;
  }
  return true;
}

void Passage::try_set(const GrownSet& set, Bytes limit, int at, Attempt& best) {
  const int size = static_cast<int>(set.ops.size());
  std::vector<int> places{set.ops.front(), at, set.ops.back()};
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::vector<std::vector<int>> seen;
  for (const int place : places) {
    std::vector<int> order = precedence_.gathered(set.ops, place);
    if (!keeps_fixed(order) || std::find(seen.begin(), seen.end(), order) != seen.end()) continue;
    seen.push_back(order);
    const int begin = static_cast<int>(std::find(order.begin(), order.end(), set.ops.front()) - order.begin());
    int changed = 0;
    while (changed < begin && order[changed] == changed) ++changed;
    if (ways_[changed].empty()) continue;
    std::vector<int> back(n_);
    for (int k = 0; k < n_; ++k) back[order[k]] = k;
    reorder(m_, order);
    for (const Reached& way : ways_[changed]) {
      Pieces pieces = way.pieces;
      if (singles(changed, begin, limit, pieces) < begin) continue;
      for (const PathRegion& region : cut_set(set, begin, limit, pieces)) {
        Pieces left = region.behind;
        const int reached = singles(begin + size, n_, limit, left);
        if (reached > best.reached || (reached == best.reached && !best.order.empty() && region.ops < best.region.ops))
          best = {order, region, reached};
      }
    }
    reorder(m_, back);
  }
}

// The first regions of a set, whose ops begin at a position now, below a limit.
std::vector<PathRegion> Passage::cut_set(const GrownSet& set, int begin, Bytes limit, const Pieces& before) {
  const int end = begin + static_cast<int>(set.ops.size());
  Regions& regions = intervals_.regions();
  if (m_.before[begin] > limit || m_.before[end] + intervals_.copied(end) > limit ||
      regions.throughout(begin, end) > limit)
    return {};
  if (!regions.grow(begin, end, end - 1, set.axis) || regions.axes()[begin] < 0) return {};
  for (const auto& [pace, numbers] : intervals_.paces())
    for (const int stripes : numbers) {
      std::vector<PathRegion> found = intervals_.cut_so({begin, end, set.axis, pace, stripes}, limit, before);
      if (!found.empty()) return found;
    }
  return {};
}

void Passage::apply(const std::vector<int>& order) {
  int first = 0, end = n_;
  while (first < n_ && order[first] == first) ++first;
  while (end > first && order[end - 1] == end - 1) --end;
  if (first == n_) return;
  reorder(m_, order);
  precedence_.reorder(order);
  intervals_.forget(first, end);
  std::vector<int> at(n_), names(n_);
  std::vector<char> taken(n_);
  for (int k = 0; k < n_; ++k) {
    at[order[k]] = k;
    names[k] = order_[order[k]];
    taken[k] = taken_[order[k]];
  }
  for (PathRegion& region : fixed_) {
    const int size = region.end - region.begin;
    region.begin = at[region.begin];
    region.end = region.begin + size;
  }
  order_ = std::move(names);
  taken_ = std::move(taken);
}

void Passage::restore(const std::vector<int>& order) {
  std::vector<int> now(n_), to(n_);
  for (int k = 0; k < n_; ++k) now[order_[k]] = k;
  for (int k = 0; k < n_; ++k) to[k] = now[order[k]];
  fixed_.clear();
  apply(to);
}

bool Passage::stop() {
  stopped_ = stopped_ || (o_.stop && (++tried_ & 15) == 0 && o_.stop(intervals_.evaluated()));
  return stopped_;
}

}  // namespace tide
