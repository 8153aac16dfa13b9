#include "order/propagate.h"

#include <algorithm>
#include <queue>
#include <stdexcept>

#include "base/flow.h"
#include "order/walker.h"

namespace tide {

namespace {

enum Side : char { kFree = 0, kBefore = 1, kAfter = 2 };
constexpr int kSource = 0, kSink = 1;

// The minimum cut for one hill of macro v over all states in which v may run.
struct MacroCut {
  FlowNetwork net{2};
  std::vector<int> node;  // per macro, -1 unless free
  Bytes value = 0;

  int at(int m) {
    if (node[m] < 0) node[m] = net.add_node();
    return node[m];
  }
};

// Whether each macro runs before or after v in every order, or either. By two walks, for `Reach` may not know: the free
// ones and those before v have to hold with each macro all that it needs.
std::vector<Side> sides_of(const Problem& p, int v) {
  std::vector<Side> sides(p.n, kFree);
  const auto mark = [&](const Rows& arcs, Side side) {
    std::vector<int> queue{v};
    for (size_t i = 0; i < queue.size(); ++i)
      for (const int* u = arcs.first(queue[i]); u != arcs.last(queue[i]); ++u)
        if (sides[*u] == kFree) {
          sides[*u] = side;
          queue.push_back(*u);
        }
  };
  mark(p.preds, kBefore);
  mark(p.succs, kAfter);
  return sides;
}

MacroCut cut_hill(const Problem& p, const std::vector<Side>& sides, int v, int hill) {
  MacroCut cut;
  cut.node.assign(p.n, -1);
  std::vector<int> begun, finished, free;
  for (int i = p.program[v]; i < hill; ++i) {
    if (p.items[i].kind == Item::kBegin) begun.push_back(p.items[i].storage);
    if (p.items[i].kind == Item::kFinish) finished.push_back(p.items[i].storage);
  }
  Bytes constant = p.start + p.items[hill].bytes;
  for (int m = 0; m < p.n; ++m) {
    if (m == v) continue;
    if (sides[m] == kBefore) constant += p.fixed[m];
    if (sides[m] != kFree) continue;
    free.push_back(m);
    const int at = cut.at(m);
    if (p.fixed[m] > 0) cut.net.add_arc(at, kSink, p.fixed[m]);
    if (p.fixed[m] < 0) {
      cut.net.add_arc(kSource, at, -p.fixed[m]);
      constant += p.fixed[m];
    }
  }
  for (int m : free)
    for (const int* u = p.preds.first(m); u != p.preds.last(m); ++u)
      if (*u != v && sides[*u] == kFree) cut.net.add_arc(cut.at(m), cut.at(*u), FlowNetwork::kInfinite);
  // Refunds `bytes` if every free macro among the users of s ran; those after v rule it out.
  const auto refund = [&](int s, Bytes bytes) {
    int kept = -1;
    for (const int* m = p.users.first(s); m != p.users.last(s); ++m)
      if (sides[*m] == kAfter) return;
    constant -= bytes;
    for (const int* m = p.users.first(s); m != p.users.last(s); ++m) {
      if (*m == v || sides[*m] != kFree) continue;
      if (kept < 0) {
        kept = cut.net.add_node();
        cut.net.add_arc(kSource, kept, bytes);
      }
      cut.net.add_arc(kept, cut.at(*m), FlowNetwork::kInfinite);
    }
  };
  for (int s = 0; s < static_cast<int>(p.size.size()); ++s) {
    bool before = false, self = false;
    for (const int* m = p.users.first(s); m != p.users.last(s); ++m) {
      before |= sides[*m] == kBefore;
      self |= *m == v;
    }
    const bool begins_here = self && std::find(begun.begin(), begun.end(), s) != begun.end();
    const bool finishes_here = self && std::find(finished.begin(), finished.end(), s) != finished.end();
    if (p.begins[s]) {
      if (before || begins_here) {
        constant += p.size[s];
      } else {
        int paid = -1;
        for (const int* m = p.users.first(s); m != p.users.last(s); ++m) {
          if (*m == v || sides[*m] != kFree) continue;
          if (paid < 0) {
            paid = cut.net.add_node();
            cut.net.add_arc(paid, kSink, p.size[s]);
          }
          cut.net.add_arc(cut.at(*m), paid, FlowNetwork::kInfinite);
        }
      }
    }
    if (p.finishes[s] && (!self || finishes_here)) refund(s, p.size[s]);
  }
  // One input is overwritten at most; refunding for each that could be is below the truth, so still a bound.
  Bytes surely = 0;
  for (int i = hill - 1; i >= p.program[v] && p.items[i].kind == Item::kSave; --i)
    if (p.items[i].storage < 0) surely = std::max(surely, p.items[i].bytes);
  constant -= surely;
  for (int i = hill - 1; i >= p.program[v] && p.items[i].kind == Item::kSave; --i)
    if (p.items[i].storage >= 0 && p.items[i].bytes > surely) refund(p.items[i].storage, p.items[i].bytes - surely);
  cut.value = constant + cut.net.augment(kSource, kSink);
  return cut;
}

// The model with its ops in another topological order, and further precedences (pairs of old numbers).
Model renumbered(const Model& model, const std::vector<int>& order,
                 const std::vector<std::pair<int, int>>& precedences) {
  std::vector<int> number(model.n);
  for (int i = 0; i < model.n; ++i) number[order[i]] = i;
  Model result;
  result.n = model.n;
  result.preds.resize(model.n);
  result.workspace.resize(model.n);
  result.overwrites.resize(model.n);
  for (int v = 0; v < model.n; ++v) {
    for (int u : model.preds[v]) result.preds[number[v]].push_back(number[u]);
    result.workspace[number[v]] = model.workspace[v];
    result.overwrites[number[v]] = model.overwrites[v];
  }
  for (const auto& [u, v] : precedences) result.preds[number[v]].push_back(number[u]);
  for (auto& row : result.preds) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
  result.storages = model.storages;
  for (Storage& s : result.storages) {
    for (int& v : s.users) v = number[v];
    std::sort(s.users.begin(), s.users.end());
  }
  result.derive();
  return result;
}

// A topological order under further precedences, lowest number first; empty if they make a cycle.
std::vector<int> order_under(const Model& model, const std::vector<std::pair<int, int>>& precedences) {
  std::vector<std::vector<int>> succs = model.succs;
  std::vector<int> missing(model.n);
  for (int v = 0; v < model.n; ++v) missing[v] = static_cast<int>(model.preds[v].size());
  for (const auto& [u, v] : precedences) {
    succs[u].push_back(v);
    ++missing[v];
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int v = 0; v < model.n; ++v)
    if (missing[v] == 0) ready.push(v);
  std::vector<int> order;
  while (!ready.empty()) {
    const int u = ready.top();
    ready.pop();
    order.push_back(u);
    for (int v : succs[u])
      if (--missing[v] == 0) ready.push(v);
  }
  if (static_cast<int>(order.size()) < model.n) order.clear();
  return order;
}

}  // namespace

// Footprints at v in states near a minimum cut, without a flow: what they show possible needs no test.
class Witness {
 public:
  explicit Witness(const Problem& p) : p_(p), walker_(p) {}

  // Goes to the state in which exactly the macros marked in `ran` have run; returns its f.
  void go(const std::vector<char>& ran) {
    f_ = p_.start;
    walker_.jump(0, &empty_, 0);
    for (int m = 0; m < p_.n; ++m)
      if (ran[m]) {
        if (!walker_.is_ready(m)) throw std::logic_error("the near side of a cut is no set of ops that can have run");
        f_ += walker_.outcome(m).change;
        walker_.run(m);
      }
  }

  // Macros moved by the last question.
  int moved() const { return static_cast<int>(moved_.size()); }

  // Highest footprint at v if u, and what it needs, has run too.
  Bytes with(int u, int v) {
    collect(u, p_.preds, false);
    std::sort(moved_.begin(), moved_.end());
    Bytes f = f_;
    for (int m : moved_) {
      f += walker_.outcome(m).change;
      walker_.run(m);
    }
    const Bytes value = f + walker_.outcome(v).hill;
    for (auto m = moved_.rbegin(); m != moved_.rend(); ++m) walker_.take_back(*m);
    return value;
  }

  // Highest footprint at v if u, and what needs it, has not run yet.
  Bytes without(int u, int v) {
    collect(u, p_.succs, true);
    std::sort(moved_.begin(), moved_.end());
    Bytes f = f_;
    for (auto m = moved_.rbegin(); m != moved_.rend(); ++m) {
      walker_.take_back(*m);
      f -= walker_.outcome(*m).change;
    }
    const Bytes value = f + walker_.outcome(v).hill;
    for (int m : moved_) walker_.run(m);
    return value;
  }

 private:
  // u and everything reached from it along `arcs` that has run, or has not.
  void collect(int u, const Rows& arcs, bool has_run) {
    moved_.assign(1, u);
    if (++stamp_ == 1) seen_.assign(p_.n, 0);
    seen_[u] = stamp_;
    for (size_t i = 0; i < moved_.size(); ++i)
      for (const int* m = arcs.first(moved_[i]); m != arcs.last(moved_[i]); ++m)
        if (seen_[*m] != stamp_ && walker_.has_run(*m) == has_run) {
          seen_[*m] = stamp_;
          moved_.push_back(*m);
        }
  }

  const Problem& p_;
  Walker walker_;
  Bytes f_ = 0;
  const uint64_t empty_ = 0;
  std::vector<int> moved_;
  std::vector<int> seen_;
  int stamp_ = 0;
};

// A pass over all macros, on the problem as it stood when the pass began.
struct Propagation::Pass {
  Chains chains;
  Problem problem;
  Witness witness;
  std::vector<std::pair<int, int>> found;  // pairs of macros, the first to run before the second
  int next = 0;                            // macro to test next

  Pass(const Model& model, Chains fused, size_t reach_memory)
      : chains(std::move(fused)),
        problem(compile(model, chains, Reach(chain_preds(model, chains), reach_memory), false)),
        witness(problem) {}
};

Propagation::Propagation(const Model& model, Bytes budget, const FusionRules& rules, size_t reach_memory)
    : budget_(budget), rules_(rules), reach_memory_(reach_memory), restricted_{model, std::vector<int>(model.n)} {
  for (int v = 0; v < model.n; ++v) restricted_.original[v] = v;
}

Propagation::~Propagation() = default;

bool Propagation::run(int64_t work, const std::function<bool()>& stop) {
  const int64_t until = work_ + work;
  while (!done_ && work_ < until && !stop()) {
    if (!pass_) begin_pass();
    if (pass_->next < pass_->problem.n) {
      if (!test(pass_->next, stop)) refuted_ = done_ = true;
      if (!stop()) ++pass_->next;
    } else if (pass_->found.empty()) {
      done_ = true;
    } else {
      if (!end_pass()) refuted_ = done_ = true;
      pass_.reset();
    }
  }
  return done_;
}

void Propagation::begin_pass() {
  pass_ = std::make_unique<Pass>(restricted_.model, fuse(restricted_.model, rules_, reach_memory_), reach_memory_);
}

bool Propagation::test(int v, const std::function<bool()>& stop) {
  const Problem& p = pass_->problem;
  const std::vector<Side> sides = sides_of(p, v);
  std::vector<int> free;
  for (int u = 0; u < p.n; ++u)
    if (u != v && sides[u] == kFree) free.push_back(u);
  std::vector<char> settled(p.n, 0);
  for (int hill = p.program[v]; hill < p.program[v + 1]; ++hill) {
    if (p.items[hill].kind != Item::kHill) continue;
    const MacroCut cut = cut_hill(p, sides, v, hill);
    ++cuts_;
    work_ += cut.net.nodes();
    if (cut.value > budget_) return false;
    const std::vector<char> reached = cut.net.source_side(kSource);
    std::vector<char> ran(p.n);
    for (int m = 0; m < p.n; ++m) ran[m] = cut.node[m] >= 0 ? reached[cut.node[m]] : sides[m] == kBefore;
    pass_->witness.go(ran);
    const Bytes slack = budget_ - cut.value;
    for (int u : free) {
      if (settled[u]) continue;
      if (stop()) return true;
      // On the cheap side already: forcing it there changes nothing, so only the other side is worth a test.
      const bool is_before = ran[u];
      const Bytes seen = is_before ? pass_->witness.without(u, v) : pass_->witness.with(u, v);
      work_ += 8 + pass_->witness.moved();
      if (seen <= budget_) continue;
      FlowNetwork forced = cut.net;
      if (is_before)
        forced.add_arc(cut.node[u], kSink, FlowNetwork::kInfinite);
      else
        forced.add_arc(kSource, cut.node[u], FlowNetwork::kInfinite);
      ++cuts_;
      work_ += cut.net.nodes();
      if (forced.augment(kSource, kSink, slack + 1) <= slack) continue;
      settled[u] = 1;
      pass_->found.push_back(is_before ? std::pair{u, v} : std::pair{v, u});
    }
  }
  return true;
}

bool Propagation::end_pass() {
  const Chains& chains = pass_->chains;
  std::vector<std::pair<int, int>> precedences;
  for (const auto& [u, v] : pass_->found) precedences.push_back({chains[u].back(), chains[v].front()});
  // Fusion has moved ops next to each other; the restricted model keeps that, as precedences within the chains.
  for (const std::vector<int>& chain : chains)
    for (size_t i = 1; i < chain.size(); ++i) precedences.push_back({chain[i - 1], chain[i]});
  const std::vector<int> order = order_under(restricted_.model, precedences);
  if (order.empty()) return false;
  restricted_.model = renumbered(restricted_.model, order, precedences);
  std::vector<int> original(order.size());
  for (size_t i = 0; i < order.size(); ++i) original[i] = restricted_.original[order[i]];
  restricted_.original = std::move(original);
  return true;
}

}  // namespace tide
