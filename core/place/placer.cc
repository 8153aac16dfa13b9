#include "place/placer.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace tide::place {

namespace {

constexpr int64_t kMostListedPairs = 8'000'000;  // 64 MB of neighbours
constexpr Bytes kNowhere = std::numeric_limits<Bytes>::max();

Bytes round_up(Bytes bytes, Bytes alignment) { return (bytes + alignment - 1) / alignment * alignment; }

void join(Runs& runs, Run run) {
  auto from = std::lower_bound(runs.begin(), runs.end(), run.lo, [](const Run& r, Bytes lo) { return r.hi < lo; });
  if (from == runs.end() || from->lo > run.hi) {
    runs.insert(from, run);
    return;
  }
  from->lo = std::min(from->lo, run.lo);
  auto to = from + 1;
  Bytes hi = std::max(from->hi, run.hi);
  while (to != runs.end() && to->lo <= run.hi) hi = std::max(hi, to++->hi);
  from->hi = hi;
  runs.erase(from + 1, to);
}

}  // namespace

std::vector<std::vector<Tie>> ties_of(const Problem& problem) {
  std::vector<std::vector<Tie>> ties;
  if (problem.pairs.empty() && problem.apart.empty()) return ties;
  ties.resize(problem.buffers.size());
  // upper - lower may not be between low and high
  const auto tie = [&](int lower, int upper, Bytes low, Bytes high) {
    if (low >= high) return;
    ties[upper].push_back({lower, low, high});
    ties[lower].push_back({upper, -high, -low});
  };
  const auto each = [&](int lower, int upper, auto with) {
    const Buffer &a = problem.buffers[lower], &b = problem.buffers[upper];
    for (int k = a.first; k < a.last; ++k)
      for (int l = b.first; l < b.last; ++l) with(problem.pieces[k], problem.pieces[l]);
  };
  for (const Pair& pair : problem.pairs)
    each(pair.lower, pair.upper, [&](const Piece& p, const Piece& q) {
      if (p.start < q.end && q.start < p.end)
        tie(pair.lower, pair.upper, p.low - q.high, std::min(p.high - q.low, pair.distance));
    });
  for (const auto& [i, j] : problem.apart)
    each(i, j, [&, i = i, j = j](const Piece& p, const Piece& q) { tie(i, j, p.low - q.high, p.high - q.low); });
  return ties;
}

std::vector<std::pair<int, int>> paired_buffers(const Problem& problem) {
  std::vector<std::pair<int, int>> paired;
  for (const Pair& p : problem.pairs) paired.push_back(std::minmax(p.lower, p.upper));
  std::sort(paired.begin(), paired.end());
  return paired;
}

Problem part_of(const Problem& problem, const std::vector<int>& members) {
  Problem part;
  for (int i : members) {
    Buffer b = problem.buffers[i];
    const int first = static_cast<int>(part.pieces.size());
    part.pieces.insert(part.pieces.end(), problem.pieces.begin() + b.first, problem.pieces.begin() + b.last);
    b.first = first;
    b.last = static_cast<int>(part.pieces.size());
    part.buffers.push_back(b);
  }
  if (problem.pairs.empty() && problem.apart.empty()) return part;
  std::vector<int> index(problem.buffers.size(), -1);
  for (size_t k = 0; k < members.size(); ++k) index[members[k]] = static_cast<int>(k);
  for (const Pair& p : problem.pairs)
    if (index[p.lower] >= 0 && index[p.upper] >= 0) part.pairs.push_back({index[p.lower], index[p.upper], p.distance});
  for (const auto& [i, j] : problem.apart)
    if (index[i] >= 0 && index[j] >= 0) part.apart.emplace_back(index[i], index[j]);
  return part;
}

int clash(const Problem& problem) {
  const std::vector<std::vector<Tie>> ties = ties_of(problem);
  const std::vector<std::pair<int, int>> paired = paired_buffers(problem);
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& a = problem.buffers[i];
    if (a.fixed < 0) continue;
    for (size_t j = 0; j < i; ++j) {
      const Buffer& b = problem.buffers[j];
      if (b.fixed < 0) continue;
      if (!ties.empty())
        for (const Tie& t : ties[i])
          if (t.other == static_cast<int>(j) && a.fixed > b.fixed + t.low && a.fixed < b.fixed + t.high)
            return static_cast<int>(i);
      if (std::binary_search(paired.begin(), paired.end(), std::pair(static_cast<int>(j), static_cast<int>(i))))
        continue;
      for (int k = a.first; k < a.last; ++k)
        for (int l = b.first; l < b.last; ++l) {
          const Piece &p = problem.pieces[k], &q = problem.pieces[l];
          if (p.start < q.end && q.start < p.end && a.fixed + p.low < b.fixed + q.high &&
              b.fixed + q.low < a.fixed + p.high)
            return static_cast<int>(i);
        }
    }
  }
  return -1;
}

Occupancy::Occupancy(int sections) : leaves_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(sections)))) {
  any_.resize(2 * leaves_);
  whole_.resize(2 * leaves_);
}

void Occupancy::clear() {
  for (Runs& runs : any_) runs.clear();
  for (Runs& runs : whole_) runs.clear();
}

template <class Own, class Above>
void Occupancy::visit(int from, int to, Own own, Above above) const {
  for (int l = from + leaves_, r = to + leaves_; l < r; l >>= 1, r >>= 1) {
    if (l & 1) own(l++);
    if (r & 1) own(--r);
  }
  int height = 1;
  for (int l = (from + leaves_) >> 1, r = (to - 1 + leaves_) >> 1; l > 0; l >>= 1, r >>= 1, ++height) {
    const auto outside = [&](int node) {
      const int begin = (node << height) - leaves_;
      return begin < from || begin + (1 << height) > to;
    };
    if (outside(l)) above(l);
    if (r != l && outside(r)) above(r);
  }
}

void Occupancy::add(int from, int to, Run run) {
  visit(
      from, to,
      [&](int node) {
        join(any_[node], run);
        join(whole_[node], run);
      },
      [&](int node) { join(any_[node], run); });
}

void Occupancy::meet(int from, int to, std::vector<const Runs*>& lists) const {
  visit(
      from, to,
      [&](int node) {
        if (!any_[node].empty()) lists.push_back(&any_[node]);
      },
      [&](int node) {
        if (!whole_[node].empty()) lists.push_back(&whole_[node]);
      });
}

Placer::Placer(const Problem& problem, Kernel kernel) : problem_(problem), occupancy_(0) {
  const auto& pieces = problem.pieces;
  const int n = static_cast<int>(pieces.size());
  for (size_t i = 0; i < problem.buffers.size(); ++i)
    if (problem.buffers[i].fixed >= 0 && !problem.empty(static_cast<int>(i))) fixed_.push_back(static_cast<int>(i));
  ties_ = ties_of(problem);

  std::vector<int> by_start(n);
  std::iota(by_start.begin(), by_start.end(), 0);
  std::stable_sort(by_start.begin(), by_start.end(), [&](int a, int b) { return pieces[a].start < pieces[b].start; });
  std::vector<int64_t> ends(n);
  for (int k = 0; k < n; ++k) ends[k] = pieces[k].end;
  std::sort(ends.begin(), ends.end());
  for (int rank = 0, ended = 0; rank < n; ++rank) {
    while (ended < n && ends[ended] <= pieces[by_start[rank]].start) ++ended;
    pairs_ += rank - ended;
  }

  const int64_t by_lists = 30 * pairs_ + 60 * int64_t{n};
  const int64_t by_tree = 10 * pairs_ + 80 * int64_t{n} * std::bit_width(static_cast<unsigned>(n));
  lists_ = kernel == Kernel::kLists || !ties_.empty() ||
           (kernel == Kernel::kChoose && by_lists <= by_tree && pairs_ <= kMostListedPairs);
  cost_ = lists_ ? by_lists : by_tree;
  if (lists_) {
    list_neighbours(by_start);
    placed_.resize(n);
    return;
  }
  std::vector<int64_t> starts;
  for (int k : by_start)
    if (starts.empty() || starts.back() < pieces[k].start) starts.push_back(pieces[k].start);
  const auto section = [&](int64_t step) {
    return static_cast<int>(std::lower_bound(starts.begin(), starts.end(), step) - starts.begin());
  };
  for (const Piece& p : pieces) {
    from_.push_back(section(p.start));
    to_.push_back(section(p.end));
  }
  occupancy_ = Occupancy(static_cast<int>(starts.size()));
}

void Placer::list_neighbours(const std::vector<int>& by_start) {
  const auto& pieces = problem_.pieces;
  std::vector<std::pair<int, int>> met;
  met.reserve(pairs_);
  std::vector<int> active;
  near_begin_.assign(pieces.size() + 1, 0);
  std::vector<int> owner(problem_.pairs.empty() ? 0 : pieces.size());
  const std::vector<std::pair<int, int>> paired = paired_buffers(problem_);  // their ties say what is forbidden
  if (!paired.empty())
    for (int i = 0; i < static_cast<int>(problem_.buffers.size()); ++i)
      std::fill(owner.begin() + problem_.buffers[i].first, owner.begin() + problem_.buffers[i].last, i);
  for (int k : by_start) {
    std::erase_if(active, [&](int j) { return pieces[j].end <= pieces[k].start; });
    for (int j : active) {
      if (!paired.empty() &&
          std::binary_search(paired.begin(), paired.end(), std::pair<int, int>(std::minmax(owner[j], owner[k]))))
        continue;
      met.emplace_back(j, k);
      ++near_begin_[j];
      ++near_begin_[k];
    }
    active.push_back(k);
  }
  std::inclusive_scan(near_begin_.begin(), near_begin_.end(), near_begin_.begin());
  near_.resize(2 * met.size());
  for (const auto& [j, k] : met) {
    near_[--near_begin_[j]] = k;
    near_[--near_begin_[k]] = j;
  }
}

bool Placer::place(const std::vector<int>& order, bool best_fit, Bytes ceiling, std::vector<Bytes>& offsets) {
  offsets.assign(problem_.buffers.size(), 0);
  if (lists_) {
    std::fill(placed_.begin(), placed_.end(), Run{0, 0});
    tied_.assign(ties_.size(), -1);
  } else {
    occupancy_.clear();
  }
  for (int i : fixed_) {
    const Buffer& b = problem_.buffers[i];
    offsets[i] = b.fixed;
    if (ceiling >= 0 && b.fixed + b.size >= ceiling) return false;
    put(i, b.fixed);
  }
  for (int i : order) {
    const Buffer& b = problem_.buffers[i];
    if (b.first == b.last || b.fixed >= 0) continue;
    const Bytes at = lists_ ? lowest_by_lists(i, best_fit) : lowest_by_tree(b, best_fit);
    if (ceiling >= 0 && at + b.size >= ceiling) return false;
    offsets[i] = at;
    put(i, at);
  }
  return true;
}

void Placer::put(int i, Bytes at) {
  const Buffer& b = problem_.buffers[i];
  if (!tied_.empty()) tied_[i] = at;
  for (int k = b.first; k < b.last; ++k) {
    const Piece& p = problem_.pieces[k];
    if (lists_) {
      placed_[k] = {at + p.low, at + p.high};
    } else {
      occupancy_.add(from_[k], to_[k], {at + p.low, at + p.high});
    }
  }
}

Bytes Placer::lowest_by_lists(int i, bool best_fit) {
  const Buffer& b = problem_.buffers[i];
  size_t most = ties_.empty() ? 0 : ties_[i].size();
  for (int k = b.first; k < b.last; ++k) most += near_begin_[k + 1] - near_begin_[k];
  if (forbidden_.size() < most + 1) forbidden_.resize(most + 1);
  Run* end = forbidden_.data();
  for (int k = b.first; k < b.last; ++k) {
    const Bytes low = problem_.pieces[k].low, high = problem_.pieces[k].high;
    for (int j = near_begin_[k]; j < near_begin_[k + 1]; ++j) {
      const Run& other = placed_[near_[j]];
      *end = {other.lo - high, other.hi - low};
      end += other.hi > low;
    }
  }
  if (!ties_.empty())
    for (const Tie& tie : ties_[i])
      if (tied_[tie.other] >= 0) *end++ = {tied_[tie.other] + tie.low, tied_[tie.other] + tie.high};
  Run* const begin = forbidden_.data();
  if (end - begin > 24) {
    std::sort(begin, end, [](const Run& x, const Run& y) { return x.lo < y.lo; });
  } else {
    for (Run* k = begin + 1; k < end; ++k) {
      const Run run = *k;
      Run* j = k;
      for (; j > begin && run.lo < j[-1].lo; --j) *j = j[-1];
      *j = run;
    }
  }
  Bytes at = 0, best = -1, least = kNowhere;
  for (const Run* r = begin; r < end; ++r) {
    if (r->lo >= at) {
      if (!best_fit || r->lo == at) return at;
      if (r->lo - at < least) {
        best = at;
        least = r->lo - at;
      }
    }
    if (r->hi > at) at = b.alignment == 1 ? r->hi : round_up(r->hi, b.alignment);
  }
  return best < 0 ? at : best;
}

void Placer::Cursor::pass(Bytes offset) {
  const Bytes lowest = offset + low;
  if (at == end || at->hi > lowest) return;
  std::ptrdiff_t stride = 1;
  while (end - at > stride && at[stride].hi <= lowest) {
    at += stride;
    stride *= 2;
  }
  const Run* const limit = end - at > stride ? at + stride : end;
  at = std::partition_point(at + 1, limit, [&](const Run& r) { return r.hi <= lowest; });
}

Bytes Placer::lowest_by_tree(const Buffer& b, bool best_fit) {
  cursors_.clear();
  for (int k = b.first; k < b.last; ++k) {
    met_.clear();
    occupancy_.meet(from_[k], to_[k], met_);
    const Piece& p = problem_.pieces[k];
    std::stable_sort(met_.begin(), met_.end(), [](const Runs* a, const Runs* b) { return a->size() > b->size(); });
    for (const Runs* runs : met_) cursors_.push_back({runs->data(), runs->data() + runs->size(), p.low, p.high});
  }
  Bytes at = 0, best = -1, least = kNowhere;
  while (true) {
    // Rise above whatever forbids `at`, until nothing does; then `next` is where the gap ends.
    Bytes next = kNowhere;
    for (size_t k = 0; k < cursors_.size();) {
      Cursor& c = cursors_[k++];
      c.pass(at);
      if (c.at == c.end) continue;
      const Bytes below = c.at->lo - c.high;
      if (below < at) {
        at = round_up(c.at->hi - c.low, b.alignment);
        next = kNowhere;
        k = 0;
      } else {
        next = std::min(next, below);
      }
    }
    if (next == kNowhere) return best < 0 ? at : best;
    if (!best_fit || next == at) return at;
    if (next - at < least) {
      best = at;
      least = next - at;
    }
    at = next + 1;  // forbidden by the run that ends the gap
  }
}

}  // namespace tide::place
