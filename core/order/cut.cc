#include "order/cut.h"

#include <algorithm>

#include "base/flow.h"

namespace tide {

namespace {

enum Side : char { kFree = 0, kBefore = 1, kAfter = 2, kSelf = 3 };
constexpr int kSource = 0, kSink = 1;

// A storage's stretch of the network: who may begin it, who may still need it.
struct LiveStretch {
  int storage;
  std::vector<std::pair<int, int>> in, out;  // arc, op (-1: start or end)
};

}  // namespace

CutBound::CutBound(const Model& model) : model_(model), side_(model.n), node_(model.n) {}

Cut CutBound::at(int v, bool with_proof) {
  std::fill(side_.begin(), side_.end(), kFree);
  side_[v] = kSelf;
  std::vector<int> queue{v};
  for (size_t i = 0; i < queue.size(); ++i)
    for (int u : model_.preds[queue[i]])
      if (side_[u] == kFree) {
        side_[u] = kBefore;
        queue.push_back(u);
      }
  queue.assign(1, v);
  for (size_t i = 0; i < queue.size(); ++i)
    for (int u : model_.succs[queue[i]])
      if (side_[u] == kFree) {
        side_[u] = kAfter;
        queue.push_back(u);
      }
  Cut cut;
  for (const Overwrite& o : model_.overwrites[v]) {
    const Storage& storage = model_.storages[o.storage];
    const bool may_die = !storage.at_end && std::none_of(storage.users.begin(), storage.users.end(),
                                                         [&](int u) { return side_[u] == kAfter; });
    if (may_die) cut.cases.push_back(solve(v, o.storage, o.saving, with_proof));
  }
  if (cut.cases.empty()) cut.cases.push_back(solve(v, -1, 0, with_proof));
  cut.value = cut.cases[0].value;
  for (const CutCase& c : cut.cases) cut.value = std::min(cut.value, c.value);
  return cut;
}

CutCase CutBound::solve(int v, int overwritten, Bytes saving, bool with_proof) {
  FlowNetwork net(2);
  std::fill(node_.begin(), node_.end(), -1);
  std::vector<int> free_ops;
  const auto node = [&](int op) {
    if (node_[op] < 0) {
      node_[op] = net.add_node();
      free_ops.push_back(op);
    }
    return node_[op];
  };

  CutCase result;
  result.storage = overwritten;
  result.value = model_.workspace[v];
  std::vector<LiveStretch> stretches;
  for (int s = 0; s < static_cast<int>(model_.storages.size()); ++s) {
    const Storage& storage = model_.storages[s];
    if (storage.size == 0) continue;
    int begun_by = -2, needed_by = -2;  // -2: nobody for certain
    bool has_free = false;
    for (int u : storage.users) {
      if (side_[u] == kFree) has_free = true;
      if (side_[u] == kBefore || (side_[u] == kSelf && begun_by == -2)) begun_by = u;
      if (side_[u] == kAfter || (side_[u] == kSelf && needed_by == -2)) needed_by = u;
    }
    if (storage.at_start) begun_by = -1;
    if (storage.at_end) needed_by = -1;
    Bytes size = storage.size;
    const bool shared = s == overwritten;
    if (begun_by != -2 && needed_by != -2) {
      const Bytes certain = shared ? size - saving : size;
      result.value += certain;
      if (with_proof && certain > 0) result.flow.push_back({s, begun_by, shared ? v : needed_by, certain});
      if (!shared) continue;
      size = saving;
      needed_by = -2;
    }
    if (size == 0 || !has_free) continue;
    const int in = net.add_node(), out = net.add_node();
    LiveStretch stretch{s, {}, {}};
    if (begun_by != -2) {
      stretch.in.push_back({net.add_arc(kSource, in, FlowNetwork::kInfinite), begun_by});
    } else {
      for (int u : storage.users)
        if (side_[u] == kFree) stretch.in.push_back({net.add_arc(node(u), in, FlowNetwork::kInfinite), u});
    }
    net.add_arc(in, out, size);
    if (needed_by != -2) {
      stretch.out.push_back({net.add_arc(out, kSink, FlowNetwork::kInfinite), needed_by});
    } else {
      for (int u : storage.users)
        if (side_[u] == kFree) stretch.out.push_back({net.add_arc(out, node(u), FlowNetwork::kInfinite), u});
    }
    stretches.push_back(std::move(stretch));
  }
  std::vector<std::pair<int, std::pair<int, int>>> precedence;
  for (size_t i = 0; i < free_ops.size(); ++i) {
    const int x = free_ops[i];
    for (int u : model_.preds[x])
      if (side_[u] == kFree) precedence.push_back({net.add_arc(node_[x], node(u), FlowNetwork::kInfinite), {x, u}});
  }
  result.value += net.augment(kSource, kSink);
  if (!with_proof) return result;

  const std::vector<char> reached = net.source_side(kSource);
  for (int u = 0; u < model_.n; ++u)
    if (side_[u] == kBefore || (side_[u] == kFree && node_[u] >= 0 && reached[node_[u]])) result.downset.push_back(u);
  for (LiveStretch& stretch : stretches) {
    size_t to = 0;
    Bytes absorbed = stretch.out.empty() ? 0 : net.flow(stretch.out[0].first);
    for (const auto& [arc, from] : stretch.in) {
      Bytes pushed = net.flow(arc);
      while (pushed > 0) {
        while (absorbed == 0) absorbed = net.flow(stretch.out[++to].first);
        const Bytes part = std::min(pushed, absorbed);
        result.flow.push_back({stretch.storage, from, stretch.out[to].second, part});
        pushed -= part;
        absorbed -= part;
      }
    }
  }
  for (const auto& [arc, ends] : precedence)
    if (const Bytes b = net.flow(arc); b > 0) result.flow.push_back({-1, ends.first, ends.second, b});
  return result;
}

}  // namespace tide
