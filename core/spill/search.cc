#include "spill/search.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <queue>
#include <unordered_map>

#include "base/bits.h"
#include "base/hash.h"

namespace tide {
namespace {

void members(const Word* set, int words, std::vector<int>& list) {
  list.clear();
  for (int k = 0; k < words; ++k) bits::each_in(k, set[k], [&](int i) { list.push_back(i); });
}

struct SpillState {
  Bytes cost;
  Bytes value;  // cost plus what is known of the rest, never below the parent's
  uint64_t hash;
  Bytes resident;  // bytes in the fast memory after the op
  int parent;
  int next;  // another state of the same ops, or -1
  int op;
  int done;
  int leaves;  // where the list of what left before the op begins
  int leavers;
  bool dead = false;
};

class TrafficSearch {
 public:
  TrafficSearch(const SpillModel& model, const SpillOptions& options) : m_(model), o_(options) {
    n_ = m_.n;
    s_ = static_cast<int>(m_.storages.size());
    w_ = bits::words_for(std::max(n_, 1));
    v_ = bits::words_for(std::max(s_, 1));
    stride_ = 2 * w_ + 3 * v_;
    touched_.resize(n_);
    after_.resize(n_);
    for (int v = 0; v < n_; ++v)
      for (int p : m_.preds[v]) after_[p].push_back(v);
    std::vector<BitSet> before(n_, BitSet(n_));
    for (int v = 0; v < n_; ++v)
      for (int p : m_.preds[v]) {
        before[v].put(p);
        before[v].join(before[p]);
      }
    for (int s = 0; s < s_; ++s) {
      const SpillStorage& st = m_.storages[s];
      for (int v : st.users) touched_[v].push_back(s);
      int first = -1;
      for (int v : st.users) {
        bool all = true;
        for (int u : st.users) all = all && (u == v || before[u].has(v));
        if (all) first = v;
      }
      beginner_.push_back(first);
    }
  }

  SpillResult run();

 private:
  // A state: ops that have run, ops that can run, storages live, out, with a paid copy.
  const Word* done(int i) const { return &words_[static_cast<size_t>(i) * stride_]; }
  const Word* ready(int i) const { return done(i) + w_; }
  const Word* alive(int i) const { return done(i) + 2 * w_; }
  const Word* out(int i) const { return done(i) + 2 * w_ + v_; }
  const Word* copies(int i) const { return done(i) + 2 * w_ + 2 * v_; }

  static bool all(const std::vector<int>& ops, const Word* d) {
    for (int v : ops)
      if (!bits::has(d, v)) return false;
    return true;
  }
  static bool any(const std::vector<int>& ops, const Word* d) {
    for (int v : ops)
      if (bits::has(d, v)) return true;
    return false;
  }
  // Whether v is the only user of s that has not run.
  bool last(int s, int v, const Word* d) const {
    for (int u : m_.storages[s].users)
      if (u != v && !bits::has(d, u)) return false;
    return true;
  }
  bool writes(int v, int s) const {
    const std::vector<int>& w = m_.storages[s].writers;
    return std::binary_search(w.begin(), w.end(), v);
  }
  bool free_copy(int s, const Word* d) const {
    const SpillStorage& st = m_.storages[s];
    return (st.copied && !any(st.writers, d)) || (st.written_free && all(st.writers, d));
  }
  Bytes leaving_cost(int s, const Word* d, const Word* c) const {
    const SpillStorage& st = m_.storages[s];
    Bytes cost = all(st.users, d) ? 0 : st.cost;
    if (!bits::has(c, s) && !free_copy(s, d)) cost += st.cost;
    return cost;
  }
  Bytes rest(const Word* d) const {
    Bytes sum = 0;
    for (const auto& [ops, bytes] : m_.segments)
      if (!any(ops, d)) sum += bytes;
    return sum;
  }

  // Bytes of the fast memory while v runs from d.
  Bytes capacity(int v, const Word* d) const {
    return m_.gate < 0 || v == m_.gate || bits::has(d, m_.gate) ? m_.capacity : INT64_MAX;
  }
  Bytes need(int v, const Word* d) const;
  bool safe(int i, int v);
  void expand(int i);
  void children(int i, int v);
  void cover(int i, int v, Bytes excess, Bytes left);
  bool over();
  int make(int i, int v, Bytes cost);
  bool superfluous(const Word* state, Bytes cost, uint64_t hash);
  void compact(int first, std::vector<int>& kept);
  SpillResult finish(int goal);

  const SpillModel& m_;
  const SpillOptions& o_;
  int n_, s_, w_, v_, stride_;
  std::vector<std::vector<int>> touched_, after_;
  std::vector<int> beginner_;  // the op that touches a storage first in every order, or -1

  std::vector<SpillState> nodes_;
  std::vector<Word> words_;
  std::vector<int> leaves_;
  std::unordered_map<uint64_t, int> table_;
  std::vector<int> fresh_;  // states made by the last expansion
  Bytes upper_ = INT64_MAX;

  // Sets that may still be tried for the op at hand, and a bound of all that was never tried.
  int covers_left_ = 0;
  Bytes untried_ = INT64_MAX;

  Ended ended_ = Ended::kComplete;
  int64_t turns_ = 0;

  std::vector<int> ready_, live_, others_, chosen_;
  std::vector<Word> draft_;
};

Bytes TrafficSearch::need(int v, const Word* d) const {
  Bytes sum = m_.workspace[v];
  for (int s : touched_[v]) sum += m_.storages[s].room;
  Bytes saving = 0;
  for (const Overwrite& o : m_.overwrites[v]) {
    const bool dies = o.storage < 0 || (m_.storages[o.storage].overwritable && last(o.storage, v, d));
    if (dies) saving = std::max(saving, o.saving);
  }
  return sum - saving;
}

// Whether running v first is as good as anything: docs/proofs.md, traffic theorem 4.
bool TrafficSearch::safe(int i, int v) {
  if (v == m_.gate) return false;  // others may want to run while there is room for everything
  const Word* d = done(i);
  Bytes sum = need(v, d);
  for (int s : touched_[v])
    if (bits::has(out(i), s)) return false;
  for (int s : live_)
    if (!bits::has(out(i), s) && !std::binary_search(touched_[v].begin(), touched_[v].end(), s))
      sum += m_.storages[s].room;
  if (sum > capacity(v, d)) return false;
  int made = -1;
  for (int s : touched_[v]) {
    if (!bits::has(alive(i), s)) {
      if (made >= 0 || beginner_[s] != v) return false;
      made = s;
    } else if (writes(v, s)) {
      return false;
    }
  }
  if (made < 0) return true;
  const SpillStorage& c = m_.storages[made];
  const bool free_made = (c.copied && !writes(v, made)) || (c.written_free && c.writers.size() <= 1);
  for (int s : touched_[v]) {
    const SpillStorage& a = m_.storages[s];
    if (s == made || a.stays || a.room < c.room || a.cost < c.cost || !last(s, v, d)) continue;
    if (free_made || !(bits::has(copies(i), s) || free_copy(s, d))) return true;
  }
  return false;
}

void TrafficSearch::expand(int i) {
  fresh_.clear();
  members(ready(i), w_, ready_);
  members(alive(i), v_, live_);
  if (o_.safe_moves)
    for (int v : ready_)
      if (safe(i, v)) {
        children(i, v);
        return;
      }
  for (int v : ready_) {
    if (over()) untried_ = std::min(untried_, nodes_[i].value);
    if (ended_ != Ended::kComplete) return;
    children(i, v);
  }
}

void TrafficSearch::children(int i, int v) {
  others_.clear();
  Bytes sum = need(v, done(i));
  for (int s : live_)
    if (!bits::has(out(i), s) && !std::binary_search(touched_[v].begin(), touched_[v].end(), s)) {
      others_.push_back(s);
      sum += m_.storages[s].room;
    }
  chosen_.clear();
  const Bytes capacity = this->capacity(v, done(i));
  if (sum <= capacity) {
    make(i, v, nodes_[i].cost);
    return;
  }
  // The largest first, and of equal ones that which is read last in own order: the first set is Belady's then.
  const auto key = [&](int s) {
    int next = n_;
    for (int u : m_.storages[s].users)
      if (!bits::has(done(i), u)) next = std::min(next, u);
    return std::tuple(-m_.storages[s].room, -next, s);
  };
  std::sort(others_.begin(), others_.end(), [&](int a, int b) { return key(a) < key(b); });
  covers_left_ = o_.width ? o_.beam_covers : o_.cover_limit;
  Bytes left = 0;
  for (int s : others_) left += m_.storages[s].room;
  cover(i, v, sum - capacity, left);
}

// Every minimal set of others_ of at least `excess` bytes goes out. They come by falling size, so the last one chosen
// is the smallest: the set is minimal as it was not enough before. A set may have as many members as there are
// storages, so what is still to be done without each of them is kept on a stack of its own.
void TrafficSearch::cover(int i, int v, Bytes excess, Bytes left) {
  struct Without {
    size_t at;
    Bytes excess, left, cost;
  };
  std::vector<Without> open;
  Without now{0, excess, left, nodes_[i].cost};
  while (true) {
    bool more = false;
    if (now.excess <= 0) {
      --covers_left_;
      make(i, v, now.cost);
      if (over()) covers_left_ = 0;
    } else if (now.left >= now.excess && now.cost < upper_) {
      more = covers_left_ > 0;
      if (!more) untried_ = std::min(untried_, nodes_[i].value);
    }
    if (more) {
      const int s = others_[now.at];
      const Bytes room = m_.storages[s].room;
      open.push_back(now);
      chosen_.push_back(s);
      now = {now.at + 1, now.excess - room, now.left - room, now.cost + leaving_cost(s, done(i), copies(i))};
      continue;
    }
    if (open.empty()) return;
    now = open.back();
    open.pop_back();
    chosen_.pop_back();
    now.left -= m_.storages[others_[now.at]].room;
    ++now.at;
  }
}

// Whether to stop; asks now and then. One turn of a wide graph makes thousands of states.
bool TrafficSearch::over() {
  if (ended_ == Ended::kComplete && (++turns_ & 15) == 0 && o_.stop) ended_ = o_.stop();
  const size_t bytes = nodes_.size() * (sizeof(SpillState) + 48) + words_.size() * sizeof(Word);
  if (ended_ == Ended::kComplete && o_.memory_bytes && bytes > o_.memory_bytes) ended_ = Ended::kMemory;
  return ended_ != Ended::kComplete;
}

int TrafficSearch::make(int i, int v, Bytes cost) {
  if (cost >= upper_) return -1;
  draft_.assign(done(i), done(i) + stride_);
  Word* d = draft_.data();
  Word* can = d + w_;
  Word* alive_now = can + w_;
  Word* gone = alive_now + v_;
  Word* copy = gone + v_;
  for (int s : chosen_) {
    bits::put(gone, s);
    if (!free_copy(s, done(i))) bits::put(copy, s);
  }
  bits::put(d, v);
  bits::drop(can, v);
  for (int u : after_[v])
    if (all(m_.preds[u], d)) bits::put(can, u);
  for (int s : touched_[v]) {
    bits::put(alive_now, s);
    if (bits::has(gone, s)) {
      bits::drop(gone, s);
      if (!m_.write_once) bits::drop(copy, s);
    }
    if (writes(v, s)) bits::drop(copy, s);
    if (!m_.storages[s].stays && all(m_.storages[s].users, d)) {
      bits::drop(alive_now, s);
      bits::drop(copy, s);
    }
  }
  Bytes known = cost + rest(d);
  if (known < nodes_[i].value) known = nodes_[i].value;
  if (known >= upper_) return -1;
  uint64_t hash = 0;
  for (int k = 0; k < w_; ++k) hash = mix(hash ^ (d[k] + kGolden * (k + 1)));
  if (o_.dominance && superfluous(d, cost, hash)) return -1;
  Bytes resident = 0;
  for (int k = 0; k < v_; ++k)
    bits::each_in(k, alive_now[k] & ~gone[k], [&](int s) { resident += m_.storages[s].room; });
  const int made = static_cast<int>(nodes_.size());
  int next = -1;
  if (o_.dominance) {
    auto [at, is_new] = table_.try_emplace(hash, made);
    if (!is_new) {
      next = at->second;
      at->second = made;
    }
  }
  nodes_.push_back({cost, known, hash, resident, i, next, v, nodes_[i].done + 1, static_cast<int>(leaves_.size()),
                    static_cast<int>(chosen_.size())});
  leaves_.insert(leaves_.end(), chosen_.begin(), chosen_.end());
  words_.insert(words_.end(), draft_.begin(), draft_.end());
  fresh_.push_back(made);
  return made;
}

// Whether a known state of the same ops is as good as the draft; known states that the draft beats die.
bool TrafficSearch::superfluous(const Word* d, Bytes cost, uint64_t hash) {
  const int outs = 2 * w_ + v_;
  const auto found = table_.find(hash);
  if (found == table_.end()) return false;
  for (int j = found->second; j >= 0; j = nodes_[j].next) {
    if (nodes_[j].dead || std::memcmp(done(j), d, w_ * sizeof(Word)) != 0) continue;
    // `first` beats `second` if what it pays to put out what is out there, and to have the copies, is not more.
    const auto beats = [&](const Word* first, Bytes paid, const Word* second, Bytes limit) {
      for (int k = 0; k < v_ && paid <= limit; ++k) {
        Word rest = second[outs + k] & ~first[outs + k];
        for (; rest && paid <= limit; rest &= rest - 1)
          paid += leaving_cost(k * bits::kPerWord + std::countr_zero(rest), d, first + outs + v_);
        Word copies = second[outs + v_ + k] & ~first[outs + v_ + k] & ~second[outs + k];
        for (; copies && paid <= limit; copies &= copies - 1)
          paid += m_.storages[k * bits::kPerWord + std::countr_zero(copies)].cost;
      }
      return paid <= limit;
    };
    if (beats(done(j), nodes_[j].cost, d, cost)) return true;
    if (beats(d, cost, done(j), nodes_[j].cost)) nodes_[j].dead = true;
  }
  return false;
}

SpillResult TrafficSearch::finish(int goal) {
  SpillResult result;
  result.found = true;
  result.cost = nodes_[goal].cost;
  std::vector<int> path;
  for (int i = goal; nodes_[i].parent >= 0; i = nodes_[i].parent) path.push_back(i);
  std::reverse(path.begin(), path.end());
  for (size_t step = 0; step < path.size(); ++step) {
    const SpillState& node = nodes_[path[step]];
    result.order.push_back(node.op);
    for (int k = 0; k < node.leavers; ++k) result.leaves.emplace_back(static_cast<int>(step), leaves_[node.leaves + k]);
  }
  return result;
}

// Of the states from `first` on, only those kept stay; they are numbered again.
void TrafficSearch::compact(int first, std::vector<int>& kept) {
  int at = first;
  for (int& j : kept) {
    nodes_[at] = nodes_[j];
    std::copy_n(done(j), stride_, &words_[static_cast<size_t>(at) * stride_]);
    j = at++;
  }
  nodes_.resize(at);
  words_.resize(static_cast<size_t>(at) * stride_);
}

SpillResult TrafficSearch::run() {
  upper_ = o_.upper < 0 ? INT64_MAX : o_.upper;
  words_.assign(stride_, 0);
  for (int v = 0; v < n_; ++v)
    if (m_.preds[v].empty()) bits::put(words_.data() + w_, v);
  nodes_.push_back({0, rest(words_.data()), 0, 0, -1, -1, -1, 0, 0, 0});
  SpillResult result;
  if (o_.width) {
    std::vector<int> layer{0};
    for (int depth = 0; depth < n_; ++depth) {
      std::vector<int> following;
      const size_t first = nodes_.size();
      table_.clear();
      for (int i : layer) {
        if (over()) {
          result.ended = ended_;
          result.states = static_cast<int64_t>(nodes_.size());
          return result;
        }
        expand(i);
        following.insert(following.end(), fresh_.begin(), fresh_.end());
      }
      std::erase_if(following, [&](int j) { return nodes_[j].dead; });
      const auto rank = [&](int j) {
        const uint64_t draw = mix(nodes_[j].hash + o_.seed * kGolden + static_cast<uint64_t>(j)) & 255;
        const Bytes blur = nodes_[j].resident * static_cast<Bytes>(draw) * o_.jitter / 65536;
        return std::tuple(nodes_[j].value, nodes_[j].resident + blur, j);
      };
      if (static_cast<int>(following.size()) > o_.width) {
        std::vector<std::tuple<Bytes, Bytes, int>> keys;
        for (int j : following) keys.push_back(rank(j));
        std::nth_element(keys.begin(), keys.begin() + o_.width, keys.end());
        keys.resize(o_.width);
        std::sort(keys.begin(), keys.end());
        following.clear();
        for (const auto& k : keys) following.push_back(std::get<2>(k));
      }
      std::sort(following.begin(), following.end());
      compact(static_cast<int>(first), following);
      layer = std::move(following);
      if (layer.empty()) break;
    }
    int best = -1;
    for (int i : layer)
      if (nodes_[i].done == n_ && (best < 0 || nodes_[i].cost < nodes_[best].cost)) best = i;
    if (best >= 0) result = finish(best);
    result.states = static_cast<int64_t>(nodes_.size());
    return result;
  }
  using Entry = std::tuple<Bytes, int, int>;  // value, ops left, state
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  queue.emplace(nodes_[0].value, n_, 0);
  Bytes bound = 0;
  while (!queue.empty()) {
    const auto [value, left, i] = queue.top();
    bound = value;
    if (left == 0) {
      result = finish(i);
      result.proved = result.cost <= untried_;
      result.bound = std::min(result.cost, untried_);
      break;
    }
    if (o_.state_limit && static_cast<int64_t>(nodes_.size()) >= o_.state_limit) ended_ = Ended::kStates;
    if (over()) {
      result.bound = std::min(bound, untried_);
      break;
    }
    queue.pop();
    if (nodes_[i].dead) continue;
    expand(i);
    for (int j : fresh_) queue.emplace(nodes_[j].value, n_ - nodes_[j].done, j);
  }
  if (!result.found && ended_ == Ended::kComplete) {  // nothing below the upper bound
    result.proved = untried_ >= upper_;
    result.bound = std::min(upper_, untried_);
  }
  if (!result.proved) result.ended = ended_;
  result.states = static_cast<int64_t>(nodes_.size());
  return result;
}

}  // namespace

SpillResult spill_search(const SpillModel& model, const SpillOptions& options) {
  return TrafficSearch(model, options).run();
}

}  // namespace tide
