#include "cut/intervals.h"

#include <algorithm>

namespace tide {

Intervals::Intervals(const CutModel& model, const PathOptions& options)
    : m_(model), o_(options), regions_(model), conflicts_(model.ops.size()) {}

RegionCost Intervals::cost(int stripes, Pace pace, Bytes limit) {
  ++evaluated_;
  return regions_.cost(stripes, pace, limit);
}

bool Intervals::follows(int at) const {
  if (at == 0 || at >= static_cast<int>(m_.ops.size())) return false;
  const CutOp& op = m_.ops[at];
  if (op.reads.size() != 1 || !(op.view || !op.overwrites.empty())) return false;
  const CutTensor& read = m_.tensors[op.reads[0].tensor];
  return read.producer == at - 1 && read.readers.size() == 1 && !read.output;
}

Bytes Intervals::copied(int end) const {
  Bytes most = 0;
  for (const auto& made : m_.ops[end - 1].made) {
    const int storage = m_.tensors[made.tensor].storage;
    if (!m_.tensors[made.tensor].handed.empty()) continue;
    if (storage >= 0 && m_.storages[storage].last >= end) most = std::max(most, m_.tensors[made.tensor].size);
  }
  return most;
}

bool Intervals::may_join(const std::vector<int>& tensors, int begin, Bytes limit) const {
  return std::all_of(tensors.begin(), tensors.end(), [&](int t) {
    const CutTensor& tensor = m_.tensors[t];
    return m_.footprint[tensor.producer] <= limit || m_.before[begin] + tensor.size <= limit;
  });
}

bool Intervals::single(int op, Bytes limit) const {
  if (m_.footprint[op] > limit) return false;
  for (const auto& read : m_.ops[op].reads)
    if (!m_.tensors[read.tensor].handed.empty() && !may_join({read.tensor}, op, limit)) return false;
  return true;
}

std::vector<int> Intervals::unfit(int begin, int end) const {
  std::vector<int> result;
  const std::vector<int>& axes = regions_.axes();
  for (int op = begin; op < end; ++op)
    for (const auto& read : m_.ops[op].reads) {
      const CutTensor& tensor = m_.tensors[read.tensor];
      if (tensor.handed.empty() || tensor.producer >= begin) continue;
      const bool fits = axes[op] >= 0 && std::any_of(tensor.handed.begin(), tensor.handed.end(), [&](int dim) {
                          return dim < static_cast<int>(read.dims.size()) && read.dims[dim].axis == axes[op];
                        });
      if (!fits) result.push_back(read.tensor);
    }
  return result;
}

bool Intervals::cut(int begin, int end, Bytes limit, bool any, PathRegion& best) {
  Interval& interval = interval_of(begin, end);
  if (interval.least > limit) return false;
  if (!interval.grown) find_candidates(begin, end, interval);
  for (Candidate& candidate : interval.candidates) {
    if (!may_join(candidate.unfit, begin, limit)) continue;
    bool grown = false;
    for (size_t k = 0; k < candidate.stripes.size(); ++k) {
      if (k == candidate.costs.size()) candidate.costs.emplace_back();
      RegionCost& known = candidate.costs[k];
      if (known.ops == 0 && known.peak <= limit) {
        if (!grown) regions_.grow(begin, end, end - 1, candidate.axis);
        grown = true;
        known = cost(candidate.stripes[k], candidate.pace, limit);
      }
      if (known.peak > limit) continue;
      if (best.ops == 0 || known.weight < best.weight)
        best = {begin, end, candidate.axis, candidate.pace, candidate.stripes[k], known.peak, known.ops, known.weight};
      if (any) return true;
      if (!m_.weighed) break;  // more stripes are no fewer ops, but may be less time
    }
  }
  return best.ops > 0;
}

Intervals::Interval& Intervals::interval_of(int begin, int end) {
  const int64_t key = static_cast<int64_t>(begin) * (m_.ops.size() + 1) + end;
  const auto [at, fresh] = intervals_.try_emplace(key);
  if (fresh) at->second.least = regions_.throughout(begin, end);
  return at->second;
}

void Intervals::forget(int begin, int end) {
  const int64_t columns = static_cast<int64_t>(m_.ops.size()) + 1;
  std::erase_if(intervals_,
                [&](const auto& entry) { return entry.first % columns > begin && entry.first / columns < end; });
  for (size_t op = begin; op < conflicts_.size(); ++op) conflicts_[op].clear();
}

bool Intervals::alike(int op, int axis, int other) const {
  const CutOp& o = m_.ops[op];
  const CutAxis &a = o.axes[axis], &b = o.axes[other];
  if (a.size != b.size || a.aligned != b.aligned || a.grain != b.grain || a.reduced != b.reduced ||
      a.workspace != b.workspace || a.padded_row != b.padded_row || a.padded_beside != b.padded_beside ||
      a.stretch != b.stretch || a.weights != b.weights)
    return false;
  const auto same = [](const RowIndex& x, const RowIndex& y) {
    return x.num == y.num && x.den == y.den && x.lo == y.lo && x.hi == y.hi;
  };
  for (const auto& read : o.reads) {
    std::vector<size_t> along[2];
    for (size_t d = 0; d < read.dims.size(); ++d) {
      if (read.dims[d].axis == axis) along[0].push_back(d);
      if (read.dims[d].axis == other) along[1].push_back(d);
    }
    if (along[0].size() != along[1].size()) return false;
    const auto& shape = m_.tensors[read.tensor].shape;
    for (size_t k = 0; k < along[0].size(); ++k)
      if (!same(read.dims[along[0][k]], read.dims[along[1][k]]) || shape[along[0][k]] != shape[along[1][k]])
        return false;
  }
  for (const auto& made : o.made) {
    const auto has = [&](int which) { return std::find(made.axes.begin(), made.axes.end(), which) != made.axes.end(); };
    if (has(axis) != has(other)) return false;
    for (size_t d = 0; d < made.axes.size(); ++d)
      for (size_t e = 0; e < made.axes.size(); ++e)
        if (made.axes[d] == axis && made.axes[e] == other &&
            is_handed(m_, made.tensor, static_cast<int>(d)) != is_handed(m_, made.tensor, static_cast<int>(e)))
          return false;
  }
  return true;
}

std::vector<std::pair<Pace, std::vector<int>>> Intervals::paces() const {
  std::vector<std::pair<Pace, std::vector<int>>> result;
  const int64_t pulled = regions_.most_stripes(Pace::kPull);
  for (const Pace pace : {Pace::kPull, Pace::kPush, Pace::kLate}) {
    const int64_t most = regions_.most_stripes(pace), parts = std::min<int64_t>(o_.most_stripes, most);
    if (pace != Pace::kPull && most <= pulled) continue;
    auto& stripes = result.emplace_back(pace, std::vector<int>()).second;
    for (int64_t n = 2; n <= parts; n *= 2) stripes.push_back(static_cast<int>(n));
    if (parts > 2 && stripes.back() != parts) stripes.push_back(static_cast<int>(parts));
  }
  return result;
}

void Intervals::find_candidates(int begin, int end, Interval& interval) {
  interval.grown = true;
  const CutOp& last = m_.ops[end - 1];
  auto& conflict = conflicts_[end - 1];
  conflict.resize(last.axes.size(), -1);
  seen_.clear();
  for (size_t axis = 0; axis < last.axes.size(); ++axis) {
    if (last.axes[axis].grain <= 0 || begin <= conflict[axis]) continue;
    if (!regions_.grow(begin, end, end - 1, static_cast<int>(axis))) {
      conflict[axis] = begin;  // it stays one, whoever else is in the interval
      continue;
    }
    const std::vector<int>& along = regions_.axes();
    if (along[begin] < 0) continue;
    std::vector<std::pair<int, int>> who;
    for (int op = begin; op < end; ++op)
      if (along[op] >= 0) who.emplace_back(op, along[op]);
    const bool twin = std::any_of(seen_.begin(), seen_.end(), [&](const auto& others) {
      return std::equal(who.begin(), who.end(), others.begin(), others.end(), [&](const auto& a, const auto& b) {
        return a.first == b.first && alike(a.first, a.second, b.second);
      });
    });
    if (twin) continue;  // columns of a square image take what its rows take
    seen_.push_back(std::move(who));
    const std::vector<int> whole = unfit(begin, end);
    for (auto& [pace, stripes] : paces())
      interval.candidates.push_back({static_cast<int>(axis), pace, std::move(stripes), {}, whole});
  }
}

}  // namespace tide
