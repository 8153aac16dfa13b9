#include "place/exact.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_set>

#include "base/bits.h"
#include "base/hash.h"

namespace tide::place {

namespace {

constexpr Bytes kFar = std::numeric_limits<Bytes>::max() / 4;
constexpr int64_t kBetweenStops = 1 << 22;     // work
constexpr size_t kMostRemembered = 4'000'000;  // failures, 100 MB or so

enum class Verdict { kFits, kFails, kOut };

// One step of SplitMix64 from state x.
uint64_t mixed(uint64_t x) { return mix(x + kGolden); }

// 128 bits, so that two states are never taken for one another in practice.
struct Hash {
  uint64_t a = 0, b = 0;
  void add(uint64_t item, uint64_t value) {
    const uint64_t h = mixed(item * 0x100000001b3 ^ mixed(value));
    a += h;
    b += mixed(h ^ 0x2545f4914f6cdd1d);
  }
  bool operator==(const Hash&) const = default;
};
struct HashOf {
  size_t operator()(const Hash& h) const { return h.a; }
};

// Key and rank of what was placed last.
struct Floor {
  Bytes key;
  int rank;
  bool operator<(const Floor& other) const { return key < other.key || (key == other.key && rank < other.rank); }
};

class BranchAndBound {
 public:
  BranchAndBound(const Items& items, const std::vector<int>& rank, bool leaps, const Pruning& on, Bytes height,
                 int64_t work, const Stop& stop)
      : in_(items), rank_(rank), leaps_(leaps), on_(on), height_(height), work_left_(work), stop_(stop) {
    const int n = items.count();
    low_.assign(n, 0);
    placed_.assign(n, 0);
    barred_.assign(n, 0);
    raiser_.assign(n, -1);
    why_ = BitSet(n);
    load_.resize(items.sections);
    shared_.assign(items.sections, 0);
    for (int i = 0; i < n; ++i) {
      Bytes most = items.shift[i] + 1;
      for (const Items::Conflict& c : items.conflicts[i]) most = std::max(most, c.up + items.shift[c.other]);
      covers_.push_back(most);
      for (const Items::Shared& s : items.shared[i])
        if (s.other > i)
          for (int k = s.from; k < s.to; ++k) shared_[k] += s.saving;
    }
  }

  Verdict run() {
    std::vector<int> all(in_.count());
    std::iota(all.begin(), all.end(), 0);
    std::stable_sort(all.begin(), all.end(), [&](int a, int b) { return in_.from[a] < in_.from[b]; });
    const Verdict verdict = parts(all, {-kFar, -1});
    return verdict == Verdict::kFails && leapt_ ? Verdict::kOut : verdict;
  }

  const std::vector<Bytes>& offsets() const { return low_; }
  int most() const { return most_; }
  int64_t nodes() const { return nodes_; }
  int64_t work_left() const { return work_left_; }

 private:
  struct Change {
    int item;
    Bytes low;  // -1: it was placed
    char barred;
    int raiser;
  };
  Bytes aligned(Bytes at, int i) const {
    const Bytes alignment = in_.alignment[i];
    return alignment == 1 ? at : (at + alignment - 1) / alignment * alignment;
  }
  // Where it will be placed, if it is next, and its key then.
  Bytes at(int i) const { return in_.fixed[i] >= 0 ? in_.fixed[i] : low_[i]; }
  Floor key(int i) const { return {at(i) + in_.shift[i], rank_[i]}; }
  // Whether something has to lift it before it can be placed.
  bool stuck(int i, Floor floor) const { return barred_[i] || key(i) < floor; }

  // Places the members, ascending in time, of each part of time that none of them crosses.
  Verdict parts(const std::vector<int>& members, Floor floor) {
    if (!on_.split || in_.apart) return members.empty() ? Verdict::kFits : part(members, floor);
    const size_t mark = trail_.size();
    const int level = level_;
    for (size_t begin = 0; begin < members.size();) {
      size_t end = begin;
      for (int until = in_.to[members[begin]]; end < members.size() && in_.from[members[end]] < until; ++end)
        until = std::max(until, in_.to[members[end]]);
      const Verdict verdict =
          part(begin == 0 && end == members.size() ? members
                                                   : std::vector<int>(members.begin() + begin, members.begin() + end),
               floor);
      if (verdict != Verdict::kFits) {
        undo(mark);
        level_ = level;
        return verdict;
      }
      begin = end;
    }
    return Verdict::kFits;
  }

  Verdict part(const std::vector<int>& members, Floor floor) {
    ++nodes_;
    work_left_ -= static_cast<int64_t>(members.size());
    if (work_left_ < next_stop_) {
      next_stop_ = work_left_ - kBetweenStops;
      if (stop_ && stop_()) work_left_ = -1;
    }
    if (work_left_ < 0) return Verdict::kOut;
    if (!bounded(members, floor)) return Verdict::kFails;
    Hash hash;
    if (on_.memo && members.size() > 3) {
      bool any_stuck = false;
      for (int i : members) {
        hash.add(i, 2 * low_[i] + barred_[i]);
        any_stuck |= stuck(i, floor);
      }
      if (any_stuck) hash.add(~uint64_t{0} - floor.rank, floor.key);
      if (failed_.contains(hash)) {
        why_.clear();
        for (int i : members) blame(raiser_[i]);
        return Verdict::kFails;
      }
    }
    const Verdict verdict = branch(members, floor);
    if (verdict == Verdict::kFails && on_.memo && members.size() > 3 && failed_.size() < kMostRemembered)
      failed_.insert(hash);
    return verdict;
  }

  Verdict branch(const std::vector<int>& members, Floor floor) {
    struct Next {
      Floor key;
      int item;
    };
    std::vector<Next> next;
    Bytes dominated = kFar;  // at keys from here on something left out would fit below
    Floor due{kFar, 0};      // the first fixed item: it cannot be passed
    for (int i : members) {
      const Floor own = key(i);
      if (in_.fixed[i] >= 0) {
        if (own < floor) {
          blame_last();
          return Verdict::kFails;
        }
        due = std::min(due, own);
      } else if (on_.dominance) {
        dominated = std::min(dominated, low_[i] + covers_[i]);
      }
      if (stuck(i, floor)) continue;
      if (on_.twins && in_.twin[i] >= 0 && !placed_[in_.twin[i]]) continue;
      next.push_back({own, i});
    }
    std::sort(next.begin(), next.end(), [](const Next& a, const Next& b) { return a.key < b.key; });
    std::vector<int> rest;
    rest.reserve(members.size());
    BitSet all(in_.count());
    bool tried = false;
    for (const Next& n : next) {
      if (n.key.key >= dominated || due < n.key) break;
      if (floor < n.key && n.item != next[0].item) {
        // What was passed is stuck from now on.
        work_left_ -= static_cast<int64_t>(members.size());
        if (!bounded(members, n.key)) {
          all.join(why_);
          tried = true;
          break;
        }
      }
      const size_t mark = trail_.size();
      const int level = level_++;
      const int raiser = raiser_[n.item];
      why_.clear();
      why_.put(level);
      if (put(n.item, level)) {
        rest.clear();
        for (int i : members)
          if (i != n.item) rest.push_back(i);
        const Verdict verdict = parts(rest, n.key);
        if (verdict != Verdict::kFails) return verdict;
      }
      undo(mark);
      --level_;
      if (leaps_ && !why_.has(level)) {
        leapt_ = true;
        return Verdict::kFails;
      }
      why_.drop(level);
      blame(raiser);
      all.join(why_);
      tried = true;
    }
    if (tried) {
      why_ = std::move(all);
    } else {
      blame_last();
    }
    return Verdict::kFails;
  }

  // Whether what is left at each section can fit.
  bool bounded(const std::vector<int>& members, Floor floor) {
    releases_.clear();
    int begin = in_.sections, end = 0;
    for (int i : members) {
      Bytes release = at(i);
      if (stuck(i, floor)) {
        if (in_.fixed[i] >= 0) {
          blame_last();
          return false;
        }
        release = std::max(release + barred_[i], floor.key - in_.shift[i]);
        if (on_.support) {
          Bytes least = kFar;
          for (const Items::Conflict& c : in_.conflicts[i]) {
            if (placed_[c.other]) continue;
            const Bytes lifter = std::max(at(c.other), floor.key - in_.shift[c.other]);
            least = std::min(least, lifter + c.down);
          }
          release = std::max(release, least);
        }
        release = aligned(release, i);
      }
      if (release + in_.size[i] > height_) {
        why_.clear();
        blame(raiser_[i]);
        return false;
      }
      for (int k = in_.first_block[i]; k < in_.first_block[i + 1]; ++k)
        releases_.push_back({release + in_.blocks[k].low, k});
      begin = std::min(begin, in_.from[i]);
      end = std::max(end, in_.to[i]);
    }
    if (!on_.floors) return true;
    if (on_.releases)
      std::sort(releases_.begin(), releases_.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (int s = begin; s < end; ++s) load_[s] = -shared_[s];
    int64_t cells = 0;
    if (on_.releases) {
      for (const auto& [release, k] : releases_) {
        const Items::Block& b = in_.blocks[k];
        Bytes most = 0;
        for (int s = b.from; s < b.to; ++s) {
          load_[s] += b.height;
          most = std::max(most, load_[s]);
        }
        cells += b.to - b.from;
        if (release + most > height_) {
          if (leaps_) blame_section(k, most);
          work_left_ -= cells / 4;
          return false;
        }
      }
    } else {
      lowest_.assign(in_.sections, kFar);
      for (const auto& [release, k] : releases_) {
        const Items::Block& b = in_.blocks[k];
        for (int s = b.from; s < b.to; ++s) {
          load_[s] += b.height;
          lowest_[s] = std::min(lowest_[s], release);
        }
        cells += b.to - b.from;
      }
      for (int s = begin; s < end; ++s)
        if (lowest_[s] < kFar && lowest_[s] + load_[s] > height_) {
          why_.clear();
          for (int i : members)
            if (in_.from[i] <= s && s < in_.to[i]) blame(raiser_[i]);
          work_left_ -= cells / 4;
          return false;
        }
    }
    work_left_ -= cells / 4;
    return true;
  }

  // Puts a level on the list of what has a part in a failure; -1: nothing raised it.
  void blame(int level) {
    if (level >= 0) why_.put(level);
  }

  void blame_last() {
    why_.clear();
    blame(level_ - 1);
  }

  // Why the blocks from the highest release down to block `k` do not fit: who raised those at a section of load `most`.
  void blame_section(int k, Bytes most) {
    int worst = in_.blocks[k].from;
    while (load_[worst] != most) ++worst;
    why_.clear();
    for (const auto& [release, l] : releases_) {
      const Items::Block& b = in_.blocks[l];
      if (b.from <= worst && worst < b.to) blame(raiser_[b.item]);
      if (l == k) break;
    }
  }

  // Places an item where it is next; false if something cannot lie above it any more.
  bool put(int i, int level) {
    const Bytes x = at(i);
    if (x < low_[i] || x + in_.size[i] > height_) return false;
    trail_.push_back({i, low_[i], 0, raiser_[i]});
    low_[i] = x;
    placed_[i] = 1;
    most_ = std::max(most_, level_);
    trail_.push_back({i, -1, 0, 0});
    for (const Items::Shared& s : in_.shared[i])
      if (!placed_[s.other])
        for (int k = s.from; k < s.to; ++k) shared_[k] -= s.saving;
    for (const Items::Conflict& c : in_.conflicts[i]) {
      if (placed_[c.other]) continue;
      const Bytes above = aligned(x + c.up, c.other);
      if (above <= low_[c.other]) continue;
      if (above + in_.size[c.other] > height_) return false;
      if (in_.fixed[c.other] >= 0 && above > in_.fixed[c.other]) return false;
      trail_.push_back({c.other, low_[c.other], barred_[c.other], raiser_[c.other]});
      low_[c.other] = above;
      raiser_[c.other] = level;
      barred_[c.other] =
          on_.stacks && in_.life[i] >= 0 && in_.life[i] == in_.life[c.other] && rank_[c.other] < rank_[i];
    }
    return true;
  }

  void undo(size_t mark) {
    while (trail_.size() > mark) {
      const Change c = trail_.back();
      trail_.pop_back();
      if (c.low >= 0) {
        low_[c.item] = c.low;
        barred_[c.item] = c.barred;
        raiser_[c.item] = c.raiser;
        continue;
      }
      placed_[c.item] = 0;
      for (const Items::Shared& s : in_.shared[c.item])
        if (!placed_[s.other])
          for (int k = s.from; k < s.to; ++k) shared_[k] += s.saving;
    }
  }

  const Items& in_;
  const std::vector<int>& rank_;
  const bool leaps_;
  const Pruning on_;
  const Bytes height_;
  int64_t work_left_, next_stop_ = std::numeric_limits<int64_t>::max(), nodes_ = 0;
  const Stop& stop_;
  std::vector<Bytes> low_;  // the offset of what is placed, the least one on top of that for the rest
  std::vector<char> placed_;
  std::vector<int> raiser_;  // the level of what raised it to `low_`; -1
  BitSet why_;               // levels: of what was placed on the way here, that which has a part in the last failure
  int level_ = 0;            // how many are placed
  int most_ = 0;             // how many ever were
  bool leapt_ = false;
  std::vector<char> barred_;          // it would lie right on one of its life that is to lie above it
  std::vector<Bytes> covers_;         // above its offset, all that is to come is above it from there on
  std::vector<Bytes> load_, lowest_;  // per section, for `bounded`
  std::vector<Bytes> shared_;         // per section, what two items to come may share
  std::vector<std::pair<Bytes, int>> releases_;
  std::vector<Change> trail_;
  std::unordered_set<Hash, HashOf> failed_;
};

// By an order of the buffers, but for those that have to come before others.
std::vector<int> ranks(const Problem& problem, const Items& items, const std::vector<int>& by) {
  const int n = items.count();
  std::vector<int> item(problem.buffers.size(), -1), waits(n), rank(n);
  for (int i = 0; i < n; ++i) item[items.members[i]] = i;
  std::vector<std::vector<int>> after(n);
  for (const auto& [i, j] : items.before) {
    after[i].push_back(j);
    ++waits[j];
  }
  for (int i = 0; i < n; ++i)
    if (items.twin[i] >= 0) {
      after[items.twin[i]].push_back(i);
      ++waits[i];
    }
  std::vector<int> order;
  for (int b : by)
    if (item[b] >= 0) order.push_back(item[b]);
  // Again and again the first that waits for nothing; most wait for nothing at once.
  int next = 0;
  std::vector<char> done(n);
  while (next < n)
    for (int i : order)
      if (!done[i] && waits[i] == 0) {
        done[i] = 1;
        rank[i] = next++;
        for (int j : after[i]) --waits[j];
      }
  return rank;
}

}  // namespace

bool* Pruning::named(const std::string& name) {
  const std::pair<const char*, bool*> known[] = {
      {"floors", &floors}, {"releases", &releases}, {"support", &support}, {"dominance", &dominance},
      {"split", &split},   {"twins", &twins},       {"stacks", &stacks},   {"memo", &memo},
  };
  for (const auto& [own, rule] : known)
    if (name == own) return rule;
  return nullptr;
}

std::vector<int> ranking(const Problem& problem, Key key, uint64_t seed) {
  Orders orders(problem);
  std::vector<int> order = orders.by(key);
  if (seed == 0) return order;
  const uint64_t reach = order.size() / (seed % 2 == 0 ? 10 : 40) + 1;
  std::vector<std::pair<uint64_t, int>> moved;  // each by less than `reach` back
  for (size_t k = 0; k < order.size(); ++k) moved.emplace_back(k + mixed(mixed(seed) + order[k]) % reach, order[k]);
  std::sort(moved.begin(), moved.end());
  for (size_t k = 0; k < order.size(); ++k) order[k] = moved[k].second;
  return order;
}

Fitted fits(const Problem& problem, const Items& items, const std::vector<int>& order, bool leaps, const Pruning& on,
            Bytes capacity, int64_t work, const Stop& stop) {
  Fitted found;
  const std::vector<int> rank = ranks(problem, items, order);
  BranchAndBound search(items, rank, leaps, on, capacity / items.unit, work, stop);
  const Verdict verdict = search.run();
  found.most = search.most();
  found.nodes = search.nodes();
  found.work = work - search.work_left();
  if (verdict == Verdict::kFails && items.exact) found.fit = Fit::kNever;
  if (verdict != Verdict::kFits) return found;
  found.fit = Fit::kFits;
  for (const Buffer& b : problem.buffers) found.offsets.push_back(std::max<Bytes>(b.fixed, 0));
  for (int i = 0; i < items.count(); ++i) found.offsets[items.members[i]] = search.offsets()[i] * items.unit;
  return found;
}

}  // namespace tide::place
