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
  ready_ = walker.ready();
  std::sort(ready_.begin(), ready_.end());
  walker.looked_at(ready_.size());
  outcomes.clear();
  blocked_.clear();
  for (int u : ready_) {
    outcomes.push_back(walker.outcome(u));
    if (outcomes.back().change <= 0) blocked_.push_back(u);
  }
  on_demand_ = demand_ && demand_->list(walker, moves_);
  if (on_demand_) {
    outcomes.clear();
    for (const Move& move : moves_) outcomes.push_back(move.outcome);
  }
  for (const Outcome& o : outcomes)
    if (f + o.hill > budget) next = std::min(next, f + o.hill);
  return next;
}

Bytes Mover::make_move(Bytes f, size_t k) {
  if (on_demand_)
    ran = moves_[k].macros;
  else
    ran.assign(1, ready_[k]);
  length_ = ran.size();
  pending_.clear();
  for (int u : ran) {
    walker.run(u);
    walker.neighbours(u, pending_);
  }
  f += outcomes[k].change;
  if (!rules.closure) return f;
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
                      [&](int m) { return std::binary_search(ready_.begin(), ready_.end(), m); });
}

bool Mover::is_safe(Bytes f, Bytes after) {
  if (!rules.safe_moves || after > f) return false;
  if (length_ == 1) return began_alone();
  take_back_move();
  const Bytes lowest = f + lowest_between(walker, ran).change;
  for (int m : ran) walker.run(m);
  return lowest >= after;
}

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
