#include "cut/intervals.h"

#include <algorithm>

namespace tide {

namespace {

constexpr size_t kChoices = 2;  // tensors that leave a region of which each may be put together or not

}  // namespace

Intervals::Intervals(const CutModel& model, const PathOptions& options)
    : m_(model),
      o_(options),
      hands_(std::any_of(model.tensors.begin(), model.tensors.end(), [](const auto& t) { return !t.handed.empty(); })),
      regions_(model),
      conflicts_(model.ops.size()) {}

RegionCost Intervals::cost(int stripes, Pace pace, const Pieces& coming, const Pieces& leaving, Bytes limit) {
  ++evaluated_;
  regions_.hand(coming, leaving);
  const RegionCost cost = regions_.cost(stripes, pace, limit);
  given_up_ += cost.ops == 0;
  return cost;
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

bool Intervals::may_join(int tensor, int begin, Bytes limit) const {
  const CutTensor& t = m_.tensors[tensor];
  return m_.footprint[t.producer] <= limit || std::max(m_.before[begin] + t.size, m_.too_large(t.size)) <= limit;
}

bool Intervals::single(int op, Bytes limit) const {
  if (m_.footprint[op] > limit) return false;
  return std::all_of(m_.ops[op].reads.begin(), m_.ops[op].reads.end(), [&](const CutRead& read) {
    return m_.tensors[read.tensor].handed.empty() || may_join(read.tensor, op, limit);
  });
}

bool Intervals::reads_whole(int op, const Pieces& before) const {
  return std::none_of(before.begin(), before.end(), [&](const InPieces& there) {
    const auto& reads = m_.ops[op].reads;
    return std::any_of(reads.begin(), reads.end(), [&](const CutRead& read) { return read.tensor == there.tensor; });
  });
}

Pieces Intervals::behind(const Pieces& before, int end) const {
  Pieces result;
  for (const InPieces& there : before)
    if (m_.tensors[there.tensor].readers.back() >= end) result.push_back(there);
  return result;
}

Intervals::Borders Intervals::borders(int begin, int end) const {
  Borders result;
  if (!hands_) return {{}, {{}}};
  const std::vector<int>& axes = regions_.axes();
  Pieces leaves;
  for (int op = begin; op < end; ++op) {
    for (const auto& read : m_.ops[op].reads) {
      const CutTensor& tensor = m_.tensors[read.tensor];
      if (tensor.handed.empty() || tensor.producer >= begin) continue;
      InPieces here{read.tensor, -1};
      for (const int dim : tensor.handed)
        if (axes[op] >= 0 && dim < static_cast<int>(read.dims.size()) && read.dims[dim].axis == axes[op])
          here.dim = dim;
      result.reads.push_back(here);
    }
    if (axes[op] < 0) continue;
    for (const auto& made : m_.ops[op].made) {
      const int dim = dim_along(m_, axes, op, made.tensor);
      const CutTensor& tensor = m_.tensors[made.tensor];
      if (dim >= 0 && !tensor.output && is_handed(m_, made.tensor, dim) && tensor.readers.back() >= end)
        leaves.push_back({made.tensor, dim});
    }
  }
  std::sort(leaves.begin(), leaves.end());
  result.leaves.push_back(leaves);
  if (leaves.size() <= kChoices)
    for (size_t one = 0; leaves.size() > 1 && one < leaves.size(); ++one) result.leaves.push_back({leaves[one]});
  if (!leaves.empty()) result.leaves.emplace_back();
  return result;
}

// Whether a region reads what comes in pieces only as they are, and which of those it reads.
bool Intervals::comes(const Borders& borders, const Pieces& before, Pieces& coming) {
  coming.clear();
  for (const InPieces& there : before) {
    bool reads = false;
    for (const InPieces& read : borders.reads) {
      if (read.tensor != there.tensor) continue;
      if (read.dim != there.dim) return false;
      reads = true;
    }
    if (reads) coming.push_back(there);
  }
  return true;
}

std::vector<PathRegion> Intervals::cut(int begin, int end, Bytes limit, bool any, const Pieces& before,
                                       const std::vector<Pieces>& known) {
  std::vector<PathRegion> found;
  Interval& interval = interval_of(begin, end);
  if (interval.least > limit) return found;
  if (!interval.grown) find_candidates(begin, end, interval);
  const Pieces left = behind(before, end);
  PathRegion region{.begin = begin, .end = end};
  grown_ = -1;
  for (Candidate& candidate : interval.candidates) {
    if (!comes(candidate.borders, before, region.coming)) continue;
    for (const Pieces& leaving : candidate.borders.leaves) {
      region.leaving = leaving;
      region.behind = left;
      region.behind.insert(region.behind.end(), leaving.begin(), leaving.end());
      std::sort(region.behind.begin(), region.behind.end());
      if (any && std::find(known.begin(), known.end(), region.behind) != known.end()) continue;
      const auto same = [&](const PathRegion& other) { return other.behind == region.behind; };
      const auto at = std::find_if(found.begin(), found.end(), same);
      if (any && at != found.end()) continue;
      if (!first_below(candidate, limit, any, region)) continue;
      if (at == found.end())
        found.push_back(region);
      else if (region.weight < at->weight)
        *at = region;
      if (any && !hands_) return found;
    }
  }
  return found;
}

// The least weight of a candidate below a limit, or the first one.
bool Intervals::first_below(Candidate& candidate, Bytes limit, bool any, PathRegion& region) {
  const auto same = [&](const Known& k) { return k.coming == region.coming && k.leaving == region.leaving; };
  auto at = std::find_if(candidate.known.begin(), candidate.known.end(), same);
  if (at == candidate.known.end()) at = candidate.known.insert(at, {region.coming, region.leaving, {}});
  bool fits = false;
  for (size_t k = 0; k < candidate.stripes.size(); ++k) {
    if (k == at->costs.size()) at->costs.emplace_back();
    RegionCost& known = at->costs[k];
    if (known.ops == 0 && known.peak <= limit) {
      if (grown_ != candidate.axis) regions_.grow(region.begin, region.end, region.end - 1, candidate.axis);
      grown_ = candidate.axis;
      known = cost(candidate.stripes[k], candidate.pace, region.coming, region.leaving, limit);
    }
    if (known.peak > limit || (fits && known.weight >= region.weight)) continue;
    region.axis = candidate.axis;
    region.pace = candidate.pace;
    region.stripes = candidate.stripes[k];
    region.peak = known.peak;
    region.ops = known.ops;
    region.weight = known.weight;
    fits = true;
    if (any || !m_.weighed) break;  // more stripes are no fewer ops, but may be less time
  }
  return fits;
}

std::vector<PathRegion> Intervals::cut_so(PathRegion region, Bytes limit, const Pieces& before) {
  std::vector<PathRegion> found;
  const Borders borders = this->borders(region.begin, region.end);
  if (!comes(borders, before, region.coming)) return found;
  for (const Pieces& leaving : borders.leaves) {
    const RegionCost known = cost(region.stripes, region.pace, region.coming, leaving, limit);
    if (known.ops == 0 || known.peak > limit) continue;
    region.leaving = leaving;
    region.behind = behind(before, region.end);
    region.behind.insert(region.behind.end(), leaving.begin(), leaving.end());
    std::sort(region.behind.begin(), region.behind.end());
    region.peak = known.peak;
    region.ops = known.ops;
    region.weight = known.weight;
    found.push_back(region);
  }
  return found;
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

std::vector<std::pair<Pace, std::vector<int>>> Intervals::paces() {
  std::vector<std::pair<Pace, std::vector<int>>> result;
  const int64_t pulled = regions_.most_stripes(Pace::kPull);
  const bool again = m_.again && regions_.would_run_again();
  for (const Pace pace : {Pace::kPull, Pace::kPush, Pace::kLate, Pace::kPullAgain, Pace::kLateAgain}) {
    const int64_t most = regions_.most_stripes(pace), parts = std::min<int64_t>(o_.most_stripes, most);
    if ((!pulls(pace) && most <= pulled) || (runs_again(pace) && !again)) continue;
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
    const Borders here = borders(begin, end);
    if (twin && here.reads.empty()) continue;  // columns of a square image take what its rows take
    seen_.push_back(std::move(who));
    for (auto& [pace, stripes] : paces())
      interval.candidates.push_back({static_cast<int>(axis), pace, std::move(stripes), here, {}});
  }
}

}  // namespace tide
