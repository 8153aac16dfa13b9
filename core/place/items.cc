#include "place/items.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "place/bound.h"

namespace tide::place {

namespace {

constexpr int kRoundsOfShifts = 64;

// Sections of time: one for each set of pieces that are there together and that no later set contains.
struct Sections {
  std::vector<int> from, to;  // per piece
  int count = 0;

  explicit Sections(const Problem& problem) : from(problem.pieces.size()), to(problem.pieces.size()) {
    const auto& pieces = problem.pieces;
    std::vector<int> by_start(pieces.size()), by_end;
    std::iota(by_start.begin(), by_start.end(), 0);
    by_end = by_start;
    std::stable_sort(by_start.begin(), by_start.end(), [&](int a, int b) { return pieces[a].start < pieces[b].start; });
    std::stable_sort(by_end.begin(), by_end.end(), [&](int a, int b) { return pieces[a].end < pieces[b].end; });
    bool begun = false;  // since the last section
    size_t s = 0;
    for (int ended : by_end) {
      for (; s < by_start.size() && pieces[by_start[s]].start < pieces[ended].end; ++s) {
        from[by_start[s]] = count;
        begun = true;
      }
      count += begun;
      begun = false;
      to[ended] = count;
    }
  }
};

bool in_a_circle(int count, const std::vector<std::pair<int, int>>& before) {
  std::vector<std::vector<int>> after(count);
  std::vector<int> waits(count), ready;
  for (const auto& [i, j] : before) {
    after[i].push_back(j);
    ++waits[j];
  }
  for (int i = 0; i < count; ++i)
    if (waits[i] == 0) ready.push_back(i);
  for (size_t k = 0; k < ready.size(); ++k)
    for (int j : after[ready[k]])
      if (--waits[j] == 0) ready.push_back(j);
  return static_cast<int>(ready.size()) < count;
}

}  // namespace

Items::Items(const Problem& problem) {
  const Sections time(problem);
  sections = time.count;
  apart = !problem.apart.empty();
  std::vector<int> item(problem.buffers.size(), -1);
  for (int i = 0; i < static_cast<int>(problem.buffers.size()); ++i) {
    if (problem.empty(i)) continue;
    item[i] = static_cast<int>(members.size());
    members.push_back(i);
  }

  unit = 0;
  for (int i : members) {
    const Buffer& b = problem.buffers[i];
    unit = std::gcd(std::gcd(unit, b.size), std::max<Bytes>(b.fixed, 0));
    for (int k = b.first; k < b.last; ++k)
      unit = std::gcd(unit, std::gcd(problem.pieces[k].low, problem.pieces[k].high));
  }
  for (const Pair& p : problem.pairs) unit = std::gcd(unit, p.distance);
  unit = std::max<Bytes>(unit, 1);
  // An alignment that divides the unit is kept by itself; every other one has to be a multiple of it.
  for (Bytes before = 0; before != unit;) {
    before = unit;
    for (int i : members)
      if (unit % problem.buffers[i].alignment != 0) unit = std::gcd(unit, problem.buffers[i].alignment);
  }

  for (int i : members) {
    const Buffer& b = problem.buffers[i];
    size.push_back(b.size / unit);
    alignment.push_back(std::max<Bytes>(b.alignment / unit, 1));
    fixed.push_back(b.fixed < 0 ? -1 : b.fixed / unit);
    from.push_back(*std::min_element(time.from.begin() + b.first, time.from.begin() + b.last));
    to.push_back(*std::max_element(time.to.begin() + b.first, time.to.begin() + b.last));
    first_block.push_back(static_cast<int>(blocks.size()));
    for (int k = b.first; k < b.last; ++k) {
      const Piece& p = problem.pieces[k];
      blocks.push_back({item[i], time.from[k], time.to[k], p.low / unit, (p.high - p.low) / unit});
    }
  }
  first_block.push_back(static_cast<int>(blocks.size()));

  // What is forbidden of x_j - x_i, i < j: by ties, and where blocks meet.
  std::map<std::pair<int, int>, std::vector<Run>> forbidden;
  const std::vector<std::pair<int, int>> paired = paired_buffers(problem);
  const std::vector<std::vector<Tie>> ties = ties_of(problem);
  for (int j = 0; j < static_cast<int>(ties.size()); ++j)
    for (const Tie& t : ties[j])
      if (item[t.other] < item[j]) forbidden[{item[t.other], item[j]}].push_back({t.low / unit, t.high / unit});
  conflicts.resize(members.size());
  std::vector<int> by_from(blocks.size()), live;
  std::iota(by_from.begin(), by_from.end(), 0);
  std::stable_sort(by_from.begin(), by_from.end(), [&](int a, int b) { return blocks[a].from < blocks[b].from; });
  const auto plain = [&](int i) { return first_block[i + 1] - first_block[i] == 1 && blocks[first_block[i]].low == 0; };
  for (int k : by_from) {
    const Block& p = blocks[k];
    std::erase_if(live, [&](int l) { return blocks[l].to <= p.from; });
    for (int l : live) {
      const Block& q = blocks[l];
      if (p.item == q.item) continue;
      const auto [i, j] = std::minmax(p.item, q.item);
      if (std::binary_search(paired.begin(), paired.end(), std::pair(members[i], members[j]))) continue;
      if (ties.empty() && plain(i) && plain(j)) {
        conflicts[p.item].push_back({q.item, p.height, q.height});
        conflicts[q.item].push_back({p.item, q.height, p.height});
        continue;
      }
      const Block &a = p.item == i ? p : q, &b = p.item == i ? q : p;
      forbidden[{i, j}].push_back({a.low - b.low - b.height, a.low + a.height - b.low});
    }
    live.push_back(k);
  }
  for (auto& [couple, runs] : forbidden) {
    std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.lo < b.lo; });
    Run all = runs[0];
    for (const Run& r : runs) {
      if (r.lo >= all.hi) exact = false;  // there is room in between
      all = {std::min(all.lo, r.lo), std::max(all.hi, r.hi)};
    }
    conflicts[couple.first].push_back({couple.second, all.hi, -all.lo});
    conflicts[couple.second].push_back({couple.first, -all.lo, all.hi});
  }

  // Shifts, by relaxing until nothing changes.
  shift.assign(members.size(), 0);
  bool stable = false;
  for (int round = 0; round < kRoundsOfShifts && !stable; ++round) {
    stable = true;
    for (int i = 0; i < count(); ++i)
      for (const Conflict& c : conflicts[i])
        if (c.up + shift[c.other] < shift[i]) {
          shift[c.other] = shift[i] - c.up;
          stable = false;
        }
  }
  if (stable)
    for (int i = 0; i < count(); ++i)
      for (const Conflict& c : conflicts[i])
        if (c.up + shift[c.other] == shift[i]) before.emplace_back(i, c.other);
  if (!stable || in_a_circle(count(), before)) {
    exact = false;
    before.clear();
    shift.assign(members.size(), 0);
    for (auto& all : conflicts)
      for (Conflict& c : all) c = {c.other, std::max<Bytes>(c.up, 1), std::max<Bytes>(c.down, 1)};
  }

  std::vector<char> tied(problem.buffers.size());  // not like others that are there when it is
  for (const Pair& p : problem.pairs) tied[p.lower] = tied[p.upper] = 1;
  for (const auto& [i, j] : problem.apart) tied[i] = tied[j] = 1;
  std::map<std::vector<Bytes>, int> alike;
  std::map<std::pair<int, int>, int> lives;
  for (int i = 0; i < count(); ++i) {
    twin.push_back(-1);
    life.push_back(-1);
    if (fixed[i] >= 0 || tied[members[i]]) continue;
    std::vector<Bytes> shape{size[i], alignment[i], shift[i]};
    for (int k = first_block[i]; k < first_block[i + 1]; ++k)
      shape.insert(shape.end(), {blocks[k].from, blocks[k].to, blocks[k].low, blocks[k].height});
    const auto [known, fresh] = alike.try_emplace(std::move(shape), i);
    if (!fresh) twin[i] = std::exchange(known->second, i);
    if (plain(i) && blocks[first_block[i]].height == size[i] && alignment[i] == 1)
      life[i] = lives.try_emplace({from[i], to[i]}, i).first->second;
  }
  shared.resize(members.size());
  for (const Overlap& o : overlaps_of(problem)) {
    const Block &a = blocks[o.lower], &b = blocks[o.upper];
    const int begin = std::max(a.from, b.from), end = std::min(a.to, b.to);
    shared[a.item].push_back({b.item, begin, end, o.saving / unit});
    shared[b.item].push_back({a.item, begin, end, o.saving / unit});
  }
}

}  // namespace tide::place
