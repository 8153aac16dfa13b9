#include "sequence/price_cut.h"

#include <algorithm>
#include <cstdlib>

#include "base/flow.h"

namespace tide {

namespace {

constexpr int kBefore = 1, kAfter = 2;  // sides that ops are forced to

int64_t product(int64_t a, int64_t b) {
  const __int128 exact = static_cast<__int128>(a) * b;
  return exact > FlowNetwork::kInfinite ? FlowNetwork::kInfinite : static_cast<int64_t>(exact);
}

class Network {
 public:
  Network(const SequenceProblem& problem, int v, const Prices& prices, const std::vector<int>& first)
      : problem_(problem), v_(v), p_(prices.p), q_(prices.q - prices.after), flow_(2) {
    find_before();
    if (first.empty())
      find_sides();
    else
      for_order(first);
    add_ops();
    add_times(prices.before - prices.after);
    for (int x = 0; x < static_cast<int>(problem_.values.size()); ++x) add_value(x);
  }

  PriceCut solve(bool with_proof) {
    PriceCut cut;
    cut.flow = flow_.augment(kSource, kSink);
    find_held(cut);
    if (!with_proof) return cut;
    for (const auto& [arc, shown] : arcs_)
      if (const int64_t amount = flow_.flow(arc); amount > 0) {
        cut.arcs.push_back(shown);
        cut.arcs.back().amount = amount;
      }
    return cut;
  }

 private:
  static constexpr int kSource = 0, kSink = 1;

  void find_before() {
    const int n = problem_.n();
    readers_.assign(problem_.values.size(), {});
    before_.assign(n, {});
    for (int u = 0; u < n; ++u) {
      for (const int x : problem_.ops[u].reads) {
        readers_[x].push_back(u);
        if (problem_.values[x].maker >= 0) before_[u].push_back(problem_.values[x].maker);
      }
      for (const int w : problem_.ops[u].after) before_[u].push_back(w);
      std::sort(before_[u].begin(), before_[u].end());
      before_[u].erase(std::unique(before_[u].begin(), before_[u].end()), before_[u].end());
    }
  }

  void for_order(const std::vector<int>& first) {
    side_.assign(problem_.n(), kAfter);
    for (auto u = first.begin(); u != first.end() && *u != v_; ++u) side_[*u] = kBefore;
  }

  void find_sides() {
    const int n = problem_.n();
    side_.assign(n, 0);
    side_[v_] = kAfter;
    std::vector<char> above(n, 0);
    above[v_] = 1;
    for (int u = v_; u >= 0; --u)
      if (above[u])
        for (const int w : before_[u]) above[w] = 1;
    for (int u = 0; u < n; ++u) {
      if (u != v_ && above[u]) side_[u] = kBefore;
      for (const int w : before_[u])
        if (side_[w] == kAfter) side_[u] = kAfter;
    }
  }

  void add_ops() {
    ran_.assign(problem_.n(), -1);
    rests_.assign(problem_.n(), -1);
    for (int u = 0; u < problem_.n(); ++u) {
      ran_[u] = side_[u] == kBefore ? kSource : side_[u] == kAfter ? kSink : flow_.add_node();
      const SequenceOp& op = problem_.ops[u];
      rests_[u] = ran_[u];
      if (ran_[u] == kSink || op.once || op.makes.empty()) continue;
      rests_[u] = flow_.add_node();
      flow_.add_arc(ran_[u], rests_[u], product(q_, op.cost));
      if (ran_[u] != kSource) flow_.add_arc(rests_[u], ran_[u], FlowNetwork::kInfinite);
    }
    for (int u = 0; u < problem_.n(); ++u) {
      if (side_[u] != 0) continue;
      for (const int w : before_[u])
        if (side_[w] == 0) arcs_.push_back({flow_.add_arc(ran_[u], ran_[w], FlowNetwork::kInfinite), {-1, u, w, 0}});
    }
  }

  // Where time before v weighs more, ops pay that have not run, else those that have.
  void add_times(int64_t more) {
    for (int u = 0; u < problem_.n() && more != 0; ++u) {
      const int64_t amount = product(std::abs(more), problem_.ops[u].cost);
      if (u == v_ || amount == 0) continue;
      if (more > 0 && ran_[u] != kSource)
        arcs_.push_back({flow_.add_arc(kSource, ran_[u], amount), {-1, -1, u, 0}});
      else if (more < 0 && ran_[u] != kSink)
        arcs_.push_back({flow_.add_arc(ran_[u], kSink, amount), {-1, u, -1, 0}});
    }
  }

  void add_value(int x) {
    const SequenceValue& value = problem_.values[x];
    const SequenceOp& v = problem_.ops[v_];
    if (value.size == 0 || std::find(v.reads.begin(), v.reads.end(), x) != v.reads.end()) return;
    if (value.maker >= 0 && side_[value.maker] == kAfter) return;
    const int from = value.maker < 0 ? kSource : rests_[value.maker], node = flow_.add_node();
    flow_.add_arc(from, node, product(p_, value.size));
    values_.push_back({x, node});
    if (value.kept) arcs_.push_back({flow_.add_arc(node, kSink, FlowNetwork::kInfinite), {x, value.maker, -1, 0}});
    for (const int r : readers_[x])
      if (rests_[r] != kSource)
        arcs_.push_back({flow_.add_arc(node, rests_[r], FlowNetwork::kInfinite), {x, value.maker, r, 0}});
  }

  // What the least cut holds: values of its source's side that those behind v need.
  void find_held(PriceCut& cut) {
    const std::vector<char> there = flow_.source_side(kSource);
    for (const int x : problem_.ops[v_].reads) cut.held += problem_.values[x].size;
    for (const int x : problem_.ops[v_].makes) cut.held += problem_.values[x].size;
    for (const auto& [x, node] : values_) {
      const int maker = problem_.values[x].maker;
      if ((maker < 0 || there[rests_[maker]]) && !there[node]) cut.held += problem_.values[x].size;
    }
    for (int u = 0; u < problem_.n(); ++u)
      if (there[ran_[u]] && !there[rests_[u]]) cut.again.push_back(u);
  }

  const SequenceProblem& problem_;
  int v_;
  int64_t p_, q_;  // of a byte, and of time behind v that is no waiting
  FlowNetwork flow_;
  std::vector<char> side_;
  std::vector<std::vector<int>> readers_, before_;
  std::vector<int> ran_, rests_;  // nodes: on the source's side an op has run before v; it does not run from v on
  std::vector<std::pair<int, PriceArc>> arcs_;
  std::vector<std::pair<int, int>> values_;
};

}  // namespace

PriceCut price_cut(const SequenceProblem& problem, int v, const Prices& prices, const std::vector<int>& first,
                   bool with_proof) {
  return Network(problem, v, prices, first).solve(with_proof);
}

}  // namespace tide
