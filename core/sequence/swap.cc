#include "sequence/swap.h"

#include <algorithm>

namespace tide {

namespace {

constexpr size_t kMostTried = 64;  // swaps at a peak whose time is worked out, the largest values first

}  // namespace

// Values that are live across the peak, not used there, and may be stored.
void Swapper::gather(int peak) {
  const SequenceProblem& p = line_.problem();
  candidates_.clear();
  for (int x = 0; x < static_cast<int>(p.values.size()); ++x) {
    if (p.stores[x] < 0 || p.values[x].size == 0) continue;
    const std::vector<int>& readers = line_.readers(x);
    if (readers.empty() || readers.back() < peak) continue;
    const int source = line_.source(x, peak);
    const auto next = std::lower_bound(readers.begin(), readers.end(), peak);
    if (source < 0 || *next == peak || line_.source(x, *next) != source) continue;
    const int last = next == readers.begin() ? source : std::max(source, *(next - 1));
    candidates_.push_back({x, source, last, *next});
  }
  const auto larger = [&](const Candidate& a, const Candidate& b) {
    const Bytes one = p.values[a.value].size, other = p.values[b.value].size;
    return one != other ? one > other : a.value < b.value;
  };
  std::sort(candidates_.begin(), candidates_.end(), larger);
  if (candidates_.size() > kMostTried) candidates_.resize(kMostTried);
}

// A free slot right behind an occupied one, half way to the next.
bool Swapper::between(int before, int& slot) {
  const int after = line_.next(before);
  if (after - before < 2) {
    if (crowded_ < 0) crowded_ = after;
    return false;
  }
  slot = before + (after - before) / 2;
  return true;
}

bool Swapper::place(const Candidate& c, int peak, Swap& swap) {
  const SequenceProblem& p = line_.problem();
  const int store = p.stores[c.value], copy = p.ops[store].makes[0];
  swap.value = c.value;
  swap.store = -1;
  if (line_.source(copy, peak) < 0) {
    const bool loaded = p.ops[line_.op(c.source)].transfer == Transfer::kLoad;
    const Cost there = loaded ? beats_[c.source].loading : beats_[c.source].after;
    int at = c.last;
    while (line_.next(at) != peak && beats_[at].after < std::max(beats_[at].storing, there) + p.ops[store].cost)
      at = line_.next(at);
    if (!between(at, swap.store)) return false;
  }
  const Cost wanted = c.next == line_.end() ? all_ : beats_[c.next].before;
  int at = line_.previous(c.next);
  while (at != peak && std::max(beats_[at].loading, beats_[at].after) + p.ops[store + 1].cost > wanted)
    at = line_.previous(at);
  return between(at, swap.load);
}

Swap Swapper::best(int peak, Bytes excess, double wear, const std::function<double()>& blur) {
  const SequenceProblem& p = line_.problem();
  Swap best, swap;
  crowded_ = -1;
  all_ = line_.clock(&beats_);
  gather(peak);
  const Bytes highest = line_.peak();
  for (const Candidate& candidate : candidates_) {
    if (!place(candidate, peak, swap)) continue;
    const int store = p.stores[candidate.value];
    const Cost moved = (swap.store < 0 ? 0 : p.ops[store].cost) + p.ops[store + 1].cost;
    const size_t mark = line_.mark();
    put(swap);
    const Cost added = line_.cost() - all_;
    const Bytes top = line_.peak(), freed = highest - line_.at(peak);
    line_.undo(mark);
    if (freed <= 0 || top > highest) continue;
    const double spent = static_cast<double>(std::max<Cost>(0, added)) + wear * static_cast<double>(moved);
    swap.price = blur() * spent / static_cast<double>(std::min(freed, excess));
    if (best.value < 0 || swap.price < best.price) best = swap;
  }
  return best;
}

void Swapper::put(const Swap& swap) {
  const int store = line_.problem().stores[swap.value];
  if (swap.store >= 0) line_.put(store, swap.store, line_.before(swap.store));
  line_.put(store + 1, swap.load, line_.before(swap.load));
}

void Swapper::drop_stores() {
  for (const int store : line_.problem().stores) {
    if (store < 0) continue;
    while (!line_.runs_of(store).empty() && line_.can_take(line_.runs_of(store).back()))
      line_.take(line_.runs_of(store).back());
  }
}

}  // namespace tide
