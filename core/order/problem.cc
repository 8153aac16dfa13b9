#include "order/problem.h"

#include <algorithm>
#include <limits>

namespace tide {

Chains single_ops(const Model& model) {
  Chains chains(model.n);
  for (int v = 0; v < model.n; ++v) chains[v] = {v};
  return chains;
}

std::vector<std::vector<int>> chain_preds(const Model& model, const Chains& chains) {
  std::vector<int> chain_of(model.n);
  for (int m = 0; m < static_cast<int>(chains.size()); ++m)
    for (int v : chains[m]) chain_of[v] = m;
  std::vector<std::vector<int>> preds(chains.size());
  for (int m = 0; m < static_cast<int>(chains.size()); ++m) {
    for (int v : chains[m])
      for (int u : model.preds[v])
        if (chain_of[u] != m) preds[m].push_back(chain_of[u]);
    std::sort(preds[m].begin(), preds[m].end());
    preds[m].erase(std::unique(preds[m].begin(), preds[m].end()), preds[m].end());
  }
  return preds;
}

namespace {

// A macro's walk before it is compressed: per op, what happens to each storage.
struct Compiler {
  const Model& model;
  const Chains& chains;
  const Reach& reach;
  const bool reversed;
  std::vector<std::vector<int>> macros_of;  // per model storage, the macros that touch it, ascending
  std::vector<int> shared;                  // per model storage, index among the shared ones or -1

  // Whether storage s surely, possibly (0) or surely not (-1) comes to life in m if it is first touched there.
  int begins(int s, int m, bool from_end) const {
    const Storage& storage = model.storages[s];
    if (from_end ? storage.at_end : storage.at_start) return -1;
    bool certain = true;
    for (int other : macros_of[s]) {
      if (other == m) continue;
      if (from_end ? reach.before(m, other) : reach.before(other, m)) return -1;
      certain = certain && (from_end ? reach.before(other, m) : reach.before(m, other));
    }
    return certain ? 1 : 0;
  }

  void program(int m, Problem& out) const {
    std::vector<int> ops = chains[m];
    if (reversed) std::reverse(ops.begin(), ops.end());
    const int length = static_cast<int>(ops.size());
    std::vector<std::pair<int, int>> touches;  // storage, position in ops
    for (int k = 0; k < length; ++k)
      for (int s : model.touched[ops[k]])
        if (model.storages[s].size > 0) touches.push_back({s, k});
    std::sort(touches.begin(), touches.end());
    std::vector<std::vector<int>> first(length), last(length);  // storages first, last touched at each position
    const auto is_edge = [&](size_t i, size_t j) {
      return j >= touches.size() || touches[i].first != touches[j].first;
    };
    for (size_t i = 0; i < touches.size(); ++i) {
      if (is_edge(i, i - 1)) first[touches[i].second].push_back(touches[i].first);
      if (is_edge(i, i + 1)) last[touches[i].second].push_back(touches[i].first);
    }
    std::vector<Item> items;
    Bytes fixed = 0;
    size_t last_op = 0;
    for (int k = 0; k < length; ++k) {
      last_op = items.size();
      for (int s : first[k]) {
        const int sure = begins(s, m, reversed);
        if (sure > 0) fixed += model.storages[s].size;
        if (sure == 0) items.push_back({Item::kBegin, shared[s], model.storages[s].size});
      }
      for (const Overwrite& o : model.overwrites[ops[k]]) {
        // Forward, the storage must die at this op; from the end, this op must be the first to touch it.
        const std::vector<int>& here = reversed ? first[k] : last[k];
        if (!std::binary_search(here.begin(), here.end(), o.storage)) continue;
        const int sure = begins(o.storage, m, true);
        if (sure >= 0) items.push_back({Item::kSave, sure > 0 ? -1 : shared[o.storage], o.saving});
      }
      items.push_back({Item::kHill, -1, fixed + model.workspace[ops[k]]});
      for (int s : last[k]) {
        const int sure = begins(s, m, !reversed);
        if (sure > 0) fixed -= model.storages[s].size;
        if (sure == 0) items.push_back({Item::kFinish, shared[s], model.storages[s].size});
      }
    }
    out.fixed.push_back(fixed);
    for (const Item& item : items) {
      if (item.kind == Item::kBegin) out.begins[item.storage] = 1;
      if (item.kind == Item::kFinish) out.finishes[item.storage] = 1;
    }
    out.last_op.push_back(out.program.back() + static_cast<int>(drop_covered(items, last_op)));
    out.items.insert(out.items.end(), items.begin(), items.end());
    out.program.push_back(static_cast<int>(out.items.size()));
  }

  // Drops every hill that another one covers in all states, with the savings that belong to it. What may begin
  // or finish between the two counts against the drop: at most all the bytes that begin before a later hill, or
  // that finish before an earlier one.
  // Returns how many items are left of the first `before`.
  static size_t drop_covered(std::vector<Item>& items, size_t before) {
    struct Hill {
      size_t at;
      Bytes least, most;      // of the footprint, over what may be saved there
      Bytes begun, finished;  // bytes that may have, up to there
      bool gone;
    };
    std::vector<Hill> hills;
    Bytes begun = 0, finished = 0, surely = 0, at_most = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      const Item& item = items[i];
      if (item.kind == Item::kBegin) begun += item.bytes;
      if (item.kind == Item::kFinish) finished += item.bytes;
      if (item.kind == Item::kSave) {
        at_most = std::max(at_most, item.bytes);
        if (item.storage < 0) surely = std::max(surely, item.bytes);
      }
      if (item.kind == Item::kHill) {
        hills.push_back({i, item.bytes - at_most, item.bytes - surely, begun, finished, false});
        surely = at_most = 0;
      }
    }
    constexpr Bytes kNone = std::numeric_limits<Bytes>::min();
    Bytes cover = kNone;
    for (auto hill = hills.rbegin(); hill != hills.rend(); ++hill) {
      hill->gone = cover != kNone && hill->most - hill->finished <= cover;
      if (!hill->gone) cover = std::max(cover, hill->least - hill->finished);
    }
    cover = kNone;
    for (Hill& hill : hills) {
      if (hill.gone) continue;
      hill.gone = cover != kNone && hill.most + hill.begun <= cover;
      if (!hill.gone) cover = std::max(cover, hill.least + hill.begun);
    }
    std::vector<char> gone(items.size(), 0);
    for (const Hill& hill : hills) {
      if (!hill.gone) continue;
      gone[hill.at] = 1;
      for (size_t i = hill.at; i-- > 0 && items[i].kind == Item::kSave;) gone[i] = 1;
    }
    size_t kept = 0, left = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      if (gone[i]) continue;
      left += i < before;
      items[kept++] = items[i];
    }
    items.resize(kept);
    return left;
  }
};

}  // namespace

Problem compile(const Model& model, const Chains& chains, const Reach& reach, bool reversed) {
  Problem p;
  p.n = static_cast<int>(chains.size());
  p.reversed = reversed;
  Compiler compiler{model, chains, reach, reversed, {}, {}};
  std::vector<int> chain_of(model.n);
  for (int m = 0; m < p.n; ++m)
    for (int v : chains[m]) chain_of[v] = m;
  const int storages = static_cast<int>(model.storages.size());
  compiler.macros_of.resize(storages);
  compiler.shared.assign(storages, -1);
  const auto number = [&](int m) { return reversed ? p.n - 1 - m : m; };
  std::vector<std::vector<int>> touched(p.n);
  for (int s = 0; s < storages; ++s) {
    std::vector<int>& macros = compiler.macros_of[s];
    for (int v : model.storages[s].users) macros.push_back(chain_of[v]);
    std::sort(macros.begin(), macros.end());
    macros.erase(std::unique(macros.begin(), macros.end()), macros.end());
    const Storage& storage = model.storages[s];
    if (reversed ? storage.at_end : storage.at_start) p.start += storage.size;
    if (macros.size() < 2 || storage.size == 0) continue;
    compiler.shared[s] = static_cast<int>(p.size.size());
    for (int m : macros) {
      p.users.items.push_back(number(m));
      touched[number(m)].push_back(compiler.shared[s]);
    }
    p.users.close();
    p.size.push_back(storage.size);
  }
  p.begins.assign(p.size.size(), 0);
  p.finishes.assign(p.size.size(), 0);
  p.program.push_back(0);
  std::vector<std::vector<int>> preds = chain_preds(model, chains), succs(p.n);
  for (int m = 0; m < p.n; ++m)
    for (int u : preds[m]) succs[u].push_back(m);
  if (reversed) preds.swap(succs);
  for (int i = 0; i < p.n; ++i) {
    const int m = number(i);
    p.chains.push_back(chains[m]);
    if (reversed) std::reverse(p.chains.back().begin(), p.chains.back().end());
    for (int u : preds[m]) p.preds.items.push_back(number(u));
    p.preds.close();
    for (int u : succs[m]) p.succs.items.push_back(number(u));
    p.succs.close();
    for (int s : touched[i]) p.touched.items.push_back(s);
    p.touched.close();
    compiler.program(m, p);
  }
  return p;
}

}  // namespace tide
