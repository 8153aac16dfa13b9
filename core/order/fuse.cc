#include "order/fuse.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace tide {

namespace {

struct Extremes {
  Bytes up_most, up_least, down_most, down_least, change_most, change_least;
  bool up_static() const { return up_most == up_least; }
  bool down_static() const { return down_most == down_least; }
  bool change_static() const { return change_most == change_least; }
};

// Of the macros that touch storage s besides m, how many surely run before m, and how many surely after.
Extremes extremes(const Problem& p, const Reach& reach, int m) {
  std::vector<std::pair<int, std::pair<int, int>>> counts;
  for (const int* s = p.touched.first(m); s != p.touched.last(m); ++s) {
    int before = 0, after = 0;
    for (const int* t = p.users.first(*s); t != p.users.last(*s); ++t) {
      before += reach.before(*t, m);
      after += reach.before(m, *t);
    }
    counts.push_back({*s, {before, after}});
  }
  const auto find = [&](int s) {
    return std::lower_bound(counts.begin(), counts.end(), s, [](const auto& a, int b) { return a.first < b; })->second;
  };
  const Outcome least = p.run(m, [&](int s) { return find(s).first; });
  const Outcome most = p.run(m, [&](int s) { return p.users.length(s) - 1 - find(s).second; });
  return {least.hill, most.hill, most.hill - most.change, least.hill - least.change, least.change, most.change};
}

bool fusible(const FusionRules& rules, const Extremes& u, const Extremes& v, bool only_pred, bool only_succ) {
  if (rules.a && only_pred && v.change_most <= 0 && v.up_most <= u.down_least) return true;
  if (rules.b && only_succ && u.change_least >= 0 && u.down_most <= v.up_least) return true;
  return rules.c && only_pred && only_succ && u.change_least >= 0 && v.change_most <= 0 &&
         ((v.up_static() && (u.change_static() || u.down_static())) || (v.change_static() && u.down_static()) ||
          (u.change_static() && v.change_static()));
}

// Joins the pairs and numbers the chains topologically again, by first op where there is a choice.
Chains contract(const Model& model, const Chains& chains, const std::vector<int>& next) {
  Chains joined;
  std::vector<char> is_second(chains.size(), 0);
  for (int v : next)
    if (v >= 0) is_second[v] = 1;
  for (size_t u = 0; u < chains.size(); ++u) {
    if (is_second[u]) continue;
    joined.push_back(chains[u]);
    if (next[u] >= 0) joined.back().insert(joined.back().end(), chains[next[u]].begin(), chains[next[u]].end());
  }
  const std::vector<std::vector<int>> preds = chain_preds(model, joined);
  std::vector<std::vector<int>> succs(joined.size());
  std::vector<int> missing(joined.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t m = 0; m < joined.size(); ++m) {
    missing[m] = static_cast<int>(preds[m].size());
    for (int u : preds[m]) succs[u].push_back(static_cast<int>(m));
    if (missing[m] == 0) ready.push(static_cast<int>(m));
  }
  Chains result;
  while (!ready.empty()) {
    const int m = ready.top();
    ready.pop();
    result.push_back(std::move(joined[m]));
    for (int v : succs[m])
      if (--missing[v] == 0) ready.push(v);
  }
  return result;
}

}  // namespace

Chains fuse(const Model& model, const FusionRules& rules, size_t memory_bytes) {
  Chains chains = single_ops(model);
  if (!rules.a && !rules.b && !rules.c) return chains;
  while (true) {
    const Reach reach(chain_preds(model, chains), memory_bytes);
    const Problem p = compile(model, chains, reach, false);
    std::vector<Extremes> bounds;
    bounds.reserve(p.n);
    for (int m = 0; m < p.n; ++m) bounds.push_back(extremes(p, reach, m));
    std::vector<int> next(p.n, -1);
    std::vector<char> used(p.n, 0);
    bool any = false;
    for (int u = 0; u < p.n; ++u) {
      for (const int* v = p.succs.first(u); v != p.succs.last(u) && !used[u]; ++v) {
        if (used[*v]) continue;
        const bool only_pred =
            std::all_of(p.preds.first(*v), p.preds.last(*v), [&](int w) { return w == u || reach.before(w, u); });
        const bool only_succ =
            std::all_of(p.succs.first(u), p.succs.last(u), [&](int w) { return w == *v || reach.before(*v, w); });
        if (!(only_pred || only_succ) || !fusible(rules, bounds[u], bounds[*v], only_pred, only_succ)) continue;
        next[u] = *v;
        used[u] = used[*v] = 1;
        any = true;
      }
    }
    if (!any) return chains;
    chains = contract(model, chains, next);
  }
}

}  // namespace tide
