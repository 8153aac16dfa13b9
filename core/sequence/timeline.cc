#include "sequence/timeline.h"

#include <algorithm>
#include <cassert>

namespace tide {

namespace {

constexpr int kApart = 16;   // slots for each run
constexpr int kRoomy = 128;  // more of them where they are asked for

// Largest entry below `slot`, at least `floor`.
int below(const std::vector<int>& slots, int slot, int floor) {
  const auto at = std::lower_bound(slots.begin(), slots.end(), slot);
  return at == slots.begin() ? floor : std::max(floor, *(at - 1));
}

}  // namespace

Timeline::Timeline(const SequenceProblem& problem, const std::vector<int>& order) : problem_(&problem) {
  followers_.assign(problem.n(), {});
  earlier_.assign(problem.n(), {});
  for (int v = 0; v < problem.n(); ++v) {
    for (const int u : problem.ops[v].after) followers_[u].push_back(v);
    for (const int w : problem.ops[v].until) earlier_[w].push_back(v);
  }
  build(order, -1);
}

// `roomy`: position of the run that gets more free slots before it.
void Timeline::build(const std::vector<int>& order, int roomy) {
  const SequenceProblem& p = *problem_;
  const int count = static_cast<int>(order.size());
  const int more = roomy < 0 ? 0 : kRoomy;
  peaks_ = Peaks((count + 2) * kApart + more);
  const int slots = peaks_.slots(), apart = (slots - more) / (count + 2);
  end_ = slots - 1;
  op_.assign(slots, -1);
  next_.assign(slots, -1);
  previous_.assign(slots, -1);
  next_[kStart] = end_;
  previous_[end_] = kStart;
  slots_of_.assign(p.n(), {});
  made_.assign(p.values.size(), {});
  events_.assign(p.values.size(), {});
  changes_.clear();
  runs_ = 0;
  cost_ = 0;
  for (int i = 0, slot = apart; i < count; ++i, slot += apart) {
    if (i == roomy) slot += more;
    const int v = order[i];
    slots_of_[v].push_back(slot);
    for (const int x : p.ops[v].reads) events_[x].push_back(slot);
    for (const int x : p.ops[v].makes) made_[x].push_back(slot);
    op_[slot] = v;
    link(slot, previous_[end_]);
    ++runs_;
    if (p.ops[v].transfer == Transfer::kNone) cost_ += p.ops[v].cost;
    if (p.ops[v].workspace) peaks_.add(slot, slot, p.ops[v].workspace);
  }
  for (size_t x = 0; x < p.values.size(); ++x) {
    const SequenceValue& value = p.values[x];
    if (value.kept) events_[x].push_back(end_);
    if (value.maker < 0) {
      if (!events_[x].empty()) peaks_.add(kStart, events_[x].back(), value.size);
      continue;
    }
    for (const int run : made_[x]) peaks_.add(run, last(static_cast<int>(x), run), value.size);
  }
}

std::vector<int> Timeline::order() const {
  std::vector<int> order;
  order.reserve(runs_);
  for (int slot = begin(); slot != end_; slot = next_[slot]) order.push_back(op_[slot]);
  return order;
}

int Timeline::source(int value, int slot) const {
  return problem_->values[value].maker < 0 ? kStart : below(made_[value], slot, -1);
}

int Timeline::last(int value, int source) const {
  const std::vector<int>& runs = made_[value];
  const auto after = std::upper_bound(runs.begin(), runs.end(), source);
  const int until = after == runs.end() ? end_ + 1 : *after;
  return below(events_[value], until, source);
}

bool Timeline::barred(int op, int slot) const {
  for (const int w : problem_->ops[op].until)
    if (!slots_of_[w].empty() && slots_of_[w].front() < slot) return true;
  return false;
}

bool Timeline::can_put(int op, int slot) const {
  if (barred(op, slot)) return false;
  const SequenceOp& o = problem_->ops[op];
  for (const int x : o.reads)
    if (source(x, slot) < 0) return false;
  for (const int u : o.after)
    if (slots_of_[u].empty() || slots_of_[u].front() > slot) return false;
  return true;
}

bool Timeline::can_take(int slot) const {
  const int op = op_[slot];
  const std::vector<int>& runs = slots_of_[op];
  if (runs.size() < 2 && problem_->ops[op].transfer == Transfer::kNone) return false;
  for (const int x : problem_->ops[op].makes) {
    const std::vector<int>& made = made_[x];
    if (made.front() != slot || events_[x].empty()) continue;
    if (made.size() < 2 || events_[x].front() < made[1]) return false;
  }
  if (runs.front() != slot) return true;
  for (const int w : followers_[op])
    if (slots_of_[w].front() < runs[1]) return false;
  return true;
}

std::pair<int, int> Timeline::window(int slot) const {
  const int op = op_[slot];
  const SequenceOp& o = problem_->ops[op];
  const std::vector<int>& runs = slots_of_[op];
  const bool first = runs.front() == slot;
  int low = kStart, high = end_;
  for (const int x : o.reads) {
    if (problem_->values[x].maker >= 0) low = std::max(low, made_[x].front());
  }
  for (const int u : o.after) low = std::max(low, slots_of_[u].front());
  for (const int u : earlier_[op]) low = std::max(low, slots_of_[u].back());
  for (const int w : o.until) high = std::min(high, slots_of_[w].front());
  if (first) {
    for (const int w : followers_[op]) high = std::min(high, slots_of_[w].front());
  }
  for (const int x : o.makes) {
    const auto reader = std::upper_bound(events_[x].begin(), events_[x].end(), slot);
    if (reader != events_[x].end() && (first || *reader < end_)) high = std::min(high, *reader);
  }
  return {low, high};
}

void Timeline::link(int slot, int before) {
  const int after = next_[before];
  next_[before] = previous_[after] = slot;
  previous_[slot] = before;
  next_[slot] = after;
}

void Timeline::unlink(int slot) {
  next_[previous_[slot]] = next_[slot];
  previous_[next_[slot]] = previous_[slot];
}

void Timeline::put(int op, int slot, int before) {
  assert(op_[slot] < 0 && before < slot && slot < next_[before]);
  changes_.push_back({op, slot, -1});
  link(slot, before);
  add(op, slot);
}

void Timeline::take(int slot) {
  const int op = op_[slot];
  changes_.push_back({op, slot, previous_[slot]});
  remove(op, slot);
  unlink(slot);
}

void Timeline::undo(size_t mark) {
  while (changes_.size() > mark) {
    const Done done = changes_.back();
    changes_.pop_back();
    if (done.before < 0) {
      remove(done.op, done.slot);
      unlink(done.slot);
    } else {
      link(done.slot, done.before);
      add(done.op, done.slot);
    }
  }
}

std::pair<int, int> Timeline::around(int value, int slot) const {
  if (problem_->values[value].maker < 0) return {kStart, end_ + 1};
  const std::vector<int>& runs = made_[value];
  const auto after = std::lower_bound(runs.begin(), runs.end(), slot);
  return {*(after - 1), after == runs.end() ? end_ + 1 : *after};
}

void Timeline::add(int op, int slot) {
  const SequenceOp& o = problem_->ops[op];
  op_[slot] = op;
  ++runs_;
  if (o.transfer == Transfer::kNone) cost_ += o.cost;
  if (o.workspace) peaks_.add(slot, slot, o.workspace);
  for (const int x : o.reads) {
    const SequenceValue& value = problem_->values[x];
    std::vector<int>& events = events_[x];
    const auto at = std::lower_bound(events.begin(), events.end(), slot);
    const auto [from, until] = around(x, slot);
    if (at == events.end() || *at >= until) {
      const int old = at == events.begin() ? from : std::max(from, *(at - 1));
      // What is there from the start and read by nobody takes no room.
      const bool unread = value.maker < 0 && events.empty();
      peaks_.add(unread ? kStart : old + 1, slot, value.size);
    }
    events.insert(at, slot);
  }
  for (const int x : o.makes) {
    const Bytes size = problem_->values[x].size;
    const std::vector<int>& events = events_[x];
    std::vector<int>& made = made_[x];
    auto at = std::lower_bound(made.begin(), made.end(), slot);
    const int until = at == made.end() ? end_ + 1 : *at;
    const int from = at == made.begin() ? -1 : *(at - 1);
    made.insert(at, slot);
    if (from < 0) {
      peaks_.add(slot, below(events, until, slot), size);
      continue;
    }
    const int old = below(events, until, from), now = below(events, slot, from);
    if (old > slot)
      peaks_.add(now + 1, slot - 1, -size);
    else
      peaks_.add(slot, slot, size);
  }
  std::vector<int>& runs = slots_of_[op];
  runs.insert(std::lower_bound(runs.begin(), runs.end(), slot), slot);
}

void Timeline::remove(int op, int slot) {
  const SequenceOp& o = problem_->ops[op];
  std::vector<int>& runs = slots_of_[op];
  runs.erase(std::lower_bound(runs.begin(), runs.end(), slot));
  for (const int x : o.makes) {
    const Bytes size = problem_->values[x].size;
    const std::vector<int>& events = events_[x];
    std::vector<int>& made = made_[x];
    const auto at = made.erase(std::lower_bound(made.begin(), made.end(), slot));
    const int until = at == made.end() ? end_ + 1 : *at;
    const int from = at == made.begin() ? -1 : *(at - 1);
    if (from < 0) {
      peaks_.add(slot, below(events, until, slot), -size);
      continue;
    }
    const int old = below(events, until, from), now = below(events, slot, from);
    if (old > slot)
      peaks_.add(now + 1, slot - 1, size);
    else
      peaks_.add(slot, slot, -size);
  }
  for (const int x : o.reads) {
    const SequenceValue& value = problem_->values[x];
    std::vector<int>& events = events_[x];
    const auto event = events.erase(std::lower_bound(events.begin(), events.end(), slot));
    const auto [from, until] = around(x, slot);
    if (event == events.end() || *event >= until) {
      const int old = event == events.begin() ? from : std::max(from, *(event - 1));
      const bool unread = value.maker < 0 && events.empty();
      peaks_.add(unread ? kStart : old + 1, slot, -value.size);
    }
  }
  if (o.workspace) peaks_.add(slot, slot, -o.workspace);
  if (o.transfer == Transfer::kNone) cost_ -= o.cost;
  --runs_;
  op_[slot] = -1;
}

Cost Timeline::clock(std::vector<Beat>* beats) const {
  const SequenceProblem& p = *problem_;
  there_.assign(p.values.size(), 0);
  if (beats) beats->resize(op_.size());
  Cost now = 0, storing = 0, loading = 0;  // until when ops run, and either engine is busy
  for (int slot = begin(); slot != end_; slot = next_[slot]) {
    const SequenceOp& o = p.ops[op_[slot]];
    const Cost before = now;
    Cost ended = 0;
    if (o.transfer == Transfer::kStore) {
      storing = ended = std::max(storing, there_[o.reads[0]]) + o.cost;
      now = std::max(now, ended);
    } else if (o.transfer == Transfer::kLoad) {
      loading = ended = std::max(loading, now) + o.cost;
    } else {
      for (const int x : o.reads) now = std::max(now, there_[x]);
      now = ended = now + o.cost;
    }
    for (const int x : o.makes) there_[x] = ended;
    if (beats) (*beats)[slot] = {before, now, storing, loading};
  }
  for (size_t x = 0; x < p.values.size(); ++x)
    if (p.values[x].kept) now = std::max(now, there_[x]);
  return now;
}

void Timeline::spread(int roomy) {
  int position = roomy < 0 ? -1 : 0;
  for (int slot = begin(); roomy >= 0 && slot != roomy; slot = next_[slot]) ++position;
  build(order(), position);
  ++spreads_;
}

}  // namespace tide
