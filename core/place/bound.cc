#include "place/bound.h"

#include <algorithm>
#include <numeric>

#include "place/rules.h"

namespace tide::place {

namespace {

// The most that the pieces of `shared` can save together, if each pays what it cannot share with those before it: those
// of `first` (lower or upper) that are in no other role come before the others, else the index decides.
Bytes most_saved(const Problem& problem, const std::vector<Overlap>& shared, bool lower_first) {
  std::vector<int> late;  // pieces of the other role
  for (const Overlap& s : shared) late.push_back(lower_first ? s.upper : s.lower);
  std::sort(late.begin(), late.end());
  const auto rank = [&](int k) { return std::pair(std::binary_search(late.begin(), late.end(), k), k); };
  std::vector<std::pair<int, Bytes>> saved;  // per couple, the later piece
  for (const Overlap& s : shared) saved.emplace_back(rank(s.lower) < rank(s.upper) ? s.upper : s.lower, s.saving);
  std::sort(saved.begin(), saved.end());
  Bytes total = 0;
  for (size_t i = 0; i < saved.size();) {
    const Piece& p = problem.pieces[saved[i].first];
    Bytes all = 0;
    for (const int k = saved[i].first; i < saved.size() && saved[i].first == k; ++i) all += saved[i].second;
    total += std::min(all, p.high - p.low);
  }
  return total;
}

// Buffers of `live` are there. What those not there add that are kept apart from all of them and from each other.
Bytes beside(const Problem& problem, const std::vector<std::vector<int>>& apart, std::vector<int> live) {
  Bytes added = 0;
  for (int i = 0; i < static_cast<int>(apart.size()); ++i) {
    if (apart[i].size() < live.size() || problem.empty(i)) continue;
    const bool from_all = std::all_of(live.begin(), live.end(),
                                      [&](int j) { return std::binary_search(apart[i].begin(), apart[i].end(), j); });
    if (!from_all) continue;
    Bytes most = 0;
    const Buffer& b = problem.buffers[i];
    for (int k = b.first; k < b.last; ++k) most = std::max(most, problem.pieces[k].high - problem.pieces[k].low);
    added += most;
    live.push_back(i);
  }
  return added;
}

Bytes most_live(const Problem& problem) {
  const Load all = load(problem);
  Bytes most = 0;
  if (problem.pairs.empty() && problem.apart.empty()) {
    for (Bytes bytes : all.bytes) most = std::max(most, bytes);
    return most;
  }
  std::vector<std::vector<int>> apart(problem.apart.empty() ? 0 : problem.buffers.size());
  for (const auto& [i, j] : problem.apart) {
    apart[i].push_back(j);
    apart[j].push_back(i);
  }
  for (std::vector<int>& others : apart) std::sort(others.begin(), others.end());
  std::vector<Overlap> shared = overlaps_of(problem), now;
  std::sort(shared.begin(), shared.end(), [](const Overlap& a, const Overlap& b) { return a.start > b.start; });
  for (size_t k = 0; k < all.steps.size(); ++k) {
    const int64_t step = all.steps[k];
    Bytes bytes = all.bytes[k];
    std::erase_if(now, [&](const Overlap& s) { return s.end <= step; });
    for (; !shared.empty() && shared.back().start <= step; shared.pop_back()) now.push_back(shared.back());
    if (!now.empty()) bytes -= std::min(most_saved(problem, now, true), most_saved(problem, now, false));
    if (!apart.empty()) {
      std::vector<int> live;
      for (int i = 0; i < static_cast<int>(problem.buffers.size()); ++i)
        for (int p = problem.buffers[i].first; p < problem.buffers[i].last; ++p)
          if (problem.pieces[p].start <= step && step < problem.pieces[p].end) live.push_back(i);
      bytes += beside(problem, apart, std::move(live));
    }
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace

std::vector<Overlap> overlaps_of(const Problem& problem) {
  std::vector<Overlap> result;
  for (const Pair& pair : problem.pairs) {
    const Buffer &a = problem.buffers[pair.lower], &b = problem.buffers[pair.upper];
    for (int k = a.first; k < a.last; ++k)
      for (int l = b.first; l < b.last; ++l) {
        const Piece &p = problem.pieces[k], &q = problem.pieces[l];
        const int64_t start = std::max(p.start, q.start), end = std::min(p.end, q.end);
        const Bytes above = pair.distance + q.low - p.low;  // where q begins at the least, seen from p
        const Bytes saving = std::min({p.high - p.low, q.high - q.low, p.high - p.low - above});
        if (start < end && saving > 0) result.push_back({start, end, k, l, saving});
      }
  }
  return result;
}

Bytes load_bound(const Problem& problem) {
  Bytes most = most_live(problem);
  bool uniform = true;
  for (const Buffer& b : problem.buffers) {
    most = std::max(most, b.size + std::max<Bytes>(b.fixed, 0));
    uniform &= b.alignment == problem.buffers[0].alignment && b.size % b.alignment == 0;
  }
  if (!uniform || problem.buffers.empty()) return most;
  const Bytes alignment = problem.buffers[0].alignment;
  return (most + alignment - 1) / alignment * alignment;
}

}  // namespace tide::place
