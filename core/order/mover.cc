#include <algorithm>

#include "order/search.h"

namespace tide {

Bytes Mover::close_all(Bytes f, std::vector<int>& out) {
  if (!rules.closure) return f;
  Bytes highest = 0;
  closure_.blocked.clear();
  pending_ = walker.ready();
  return closure_.close(f, budget, pending_, out, highest);
}

Bytes Mover::look_around(Bytes f) {
  Bytes next = std::numeric_limits<Bytes>::max();
  ready = walker.ready();
  std::sort(ready.begin(), ready.end());
  outcomes.clear();
  blocked_.clear();
  for (int u : ready) {
    outcomes.push_back(walker.outcome(u));
    if (outcomes.back().change <= 0) blocked_.push_back(u);
    if (f + outcomes.back().hill > budget) next = std::min(next, f + outcomes.back().hill);
  }
  return next;
}

Bytes Mover::make_move(Bytes f, size_t k) {
  const int u = ready[k];
  ran.assign(1, u);
  walker.run(u);
  f += outcomes[k].change;
  if (!rules.closure) return f;
  pending_.clear();
  walker.neighbours(u, pending_);
  closure_.blocked = blocked_;
  if (outcomes[k].change < 0) pending_.insert(pending_.end(), blocked_.begin(), blocked_.end());
  Bytes highest = 0;
  return closure_.close(f, budget, pending_, ran, highest);
}

void Mover::take_back_move() {
  for (auto m = ran.rbegin(); m != ran.rend(); ++m) walker.take_back(*m);
}

bool Mover::began_alone() const {
  return std::none_of(ran.begin() + 1, ran.end(),
                      [&](int m) { return std::binary_search(ready.begin(), ready.end(), m); });
}

size_t Mover::index_of(int macro) const { return std::lower_bound(ready.begin(), ready.end(), macro) - ready.begin(); }

Bytes repair(const Walker& walker, Bytes f, Bytes f_end, std::vector<int>& path) {
  const Lowest lowest = lowest_between(walker, path);
  if (f + lowest.change >= f_end) return f_end;
  size_t kept = 0;
  for (size_t i = 0; i < path.size(); ++i)
    if (lowest.within[i]) path[kept++] = path[i];
  path.resize(kept);
  return f + lowest.change;
}

}  // namespace tide
