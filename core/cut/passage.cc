#include "cut/passage.h"

#include <algorithm>
#include <numeric>

namespace tide {

namespace {

constexpr int kTensors = 8;  // that regions are grown from at one place

}  // namespace

Passage::Passage(CutModel& model, Precedence& precedence, Intervals& intervals, const PathOptions& options)
    : m_(model),
      precedence_(precedence),
      intervals_(intervals),
      o_(options),
      n_(static_cast<int>(model.ops.size())),
      order_(n_),
      reached_(n_ + 1),
      by_(n_ + 1),
      taken_(n_) {
  std::iota(order_.begin(), order_.end(), 0);
}

bool Passage::pass(Bytes limit, bool coarse, bool gather) {
  fixed_.clear();
  std::fill(taken_.begin(), taken_.end(), 0);
  stopped_ = stopped_ || (o_.stop && o_.stop());
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
  reached_[0] = true;
  int furthest = 0;
  for (int end = 1; end <= n_; ++end) {
    if (end > from) reached_[end] = step(end, limit, coarse);
    if (reached_[end]) furthest = end;
    if (stopped_ || furthest + o_.longest < end) {
      std::fill(reached_.begin() + end, reached_.end(), 0);
      break;
    }
  }
  return furthest;
}

bool Passage::step(int end, Bytes limit, bool coarse) {
  by_[end] = {};
  const PathRegion* last = fixed_around(end - 1);
  if (last) {
    if (end == last->end) by_[end] = *last;
    return end == last->end && reached_[last->begin];
  }
  if (reached_[end - 1] && intervals_.single(end - 1, limit)) return true;
  if (intervals_.follows(end) || m_.before[end] + intervals_.copied(end) > limit || (coarse && !valley(end)))
    return false;
  bool hot = false;
  for (int begin = end - 1; begin >= std::max(0, end - o_.longest); --begin) {
    if (taken_[begin]) break;
    hot = hot || !intervals_.single(begin, limit);
    if (!hot || !reached_[begin] || intervals_.follows(begin) || m_.before[begin] > limit) continue;
    if (coarse && !valley(begin)) continue;
    if (stop()) return false;
    if (intervals_.cut(begin, end, limit, true, by_[end])) return true;
  }
  return false;
}

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
  for (int at = n_; at > 0;) {
    if (by_[at].stripes > 1) {
      result.push_back(by_[at]);
      at = by_[at].begin;
    } else {
      --at;
    }
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
    if (!reached_[changed]) continue;
    std::vector<int> back(n_);
    for (int k = 0; k < n_; ++k) back[order[k]] = k;
    reorder(m_, order);
    PathRegion region;
    bool fits = true;
    for (int op = changed; fits && op < begin; ++op) fits = intervals_.single(op, limit);
    if (fits && cut(set, begin, limit, region)) {
      int reached = begin + size;
      while (reached < n_ && intervals_.single(reached, limit)) ++reached;
      if (reached > best.reached || (reached == best.reached && !best.order.empty() && region.ops < best.region.ops))
        best = {std::move(order), region, reached};
    }
    reorder(m_, back);
  }
}

// The first region of a set, whose ops begin at a position now, below a limit.
bool Passage::cut(const GrownSet& set, int begin, Bytes limit, PathRegion& region) {
  const int end = begin + static_cast<int>(set.ops.size());
  Regions& regions = intervals_.regions();
  if (m_.before[begin] > limit || m_.before[end] + intervals_.copied(end) > limit ||
      regions.throughout(begin, end) > limit)
    return false;
  if (!regions.grow(begin, end, end - 1, set.axis) || regions.axes()[begin] < 0) return false;
  if (!intervals_.may_join(intervals_.unfit(begin, end), begin, limit)) return false;
  for (const auto& [pace, numbers] : intervals_.paces())
    for (const int stripes : numbers) {
      const RegionCost cost = intervals_.cost(stripes, pace, limit);
      if (cost.ops == 0 || cost.peak > limit) continue;
      region = {begin, end, set.axis, pace, stripes, cost.peak, cost.ops, cost.weight};
      return true;
    }
  return false;
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
  stopped_ = stopped_ || (o_.stop && (++tried_ & 15) == 0 && o_.stop());
  return stopped_;
}

}  // namespace tide
