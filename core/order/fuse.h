// Pair fusion: ops that some best order runs one right after the other become one chain.
//
// For a macro m and a state D, let up(m|D) be its hill above f(D), down(m|D) its hill above f(D+m), and
// d(m|D) = up - down the change of f. up and d never grow with D, down never falls (docs/proofs.md, Lemma 2), so
// their extremes are at the least context (what must run before m) and at the largest one (all that need not run
// after m). For a direct predecessor u of v:
//
//   A  all other predecessors of v must run before u, d(v) <= 0 always, up(v) <= down(u) always:
//      v may as well run right after u.
//   B  all other successors of u must run after v, d(u) >= 0 always, down(u) <= up(v) always:
//      u may as well wait until right before v.
//   C  both structural conditions, d(u) >= 0 and d(v) <= 0 always, and enough of d(u), down(u), d(v), up(v) is the
//      same in every state: they may as well meet where the state between them is lowest.
#pragma once

#include "order/problem.h"

namespace tide {

struct FusionRules {
  bool a = true, b = true, c = true;
};

// Chains to fixpoint. `memory_bytes` bounds the reachability table; large graphs fuse within a window.
Chains fuse(const Model& model, const FusionRules& rules, size_t memory_bytes);

}  // namespace tide
