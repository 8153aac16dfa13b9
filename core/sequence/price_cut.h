// A lower bound on the time that any plan spends on repeated runs, whatever its order, by a minimum cut.
//
// When op v runs for the first time, the ops that have run form a downset D, and behind v all others run, and some of D
// again (R). What an op behind v reads, or is there at the end, and no op behind v makes, is held. Where a byte has the
// price w = p / q, and v itself touches t bytes,
//
//     time spent again  >=  c(R)  +  w s(held)  +  w (t - budget),
//
// whose least value over all D and R is a minimum cut with two nodes an op: whether it has run before v (it drags along
// those before it), and whether it does not run behind (an arc of c between both, and each of its values pays once for
// all its readers that do).
//
// With transfers a unit of time that is waited before v has the weight a / q, one behind it b / q: making again, which
// is behind v, pays (q - b) c, and, where a > b, each op that has not run (a - b) c, where b > a each that has run
// (b - a) c (docs/proofs.md, section 16).
#pragma once

#include <cstdint>
#include <vector>

#include "sequence/problem.h"

namespace tide {

struct PriceArc {
  int value;  // -1: a precedence, from an op to one before it; or an op's time, from nowhere (-1) to it or back
  int from;   // the op; of a value its maker, -1 if it is there from the start
  int to;     // the reader, -1: the end
  int64_t amount;
};

struct PriceCut {
  int64_t flow = 0;        // least sum of min(q c, p s)
  Bytes held = 0;          // bytes that the cheapest D holds, those that v touches too
  std::vector<int> again;  // ops of it that run again
  std::vector<PriceArc> arcs;
};

struct Prices {
  int64_t p, q, before = 0, after = 0;  // of a byte, p / q; of time waited before v and behind it, parts of q
};

// The least sum for op v. `first`: the order of the first runs where it is given, so that D is; or empty.
// `with_proof` fills in the flow that shows it.
PriceCut price_cut(const SequenceProblem& problem, int v, const Prices& prices, const std::vector<int>& first,
                   bool with_proof);

}  // namespace tide
