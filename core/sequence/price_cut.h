// A lower bound on the time that any plan spends on repeated runs, whatever its order, by a minimum cut.
//
// When op v runs for the first time, the ops that have run form a downset D. What they made and later ops read is held
// (s bytes) or made again (c of time). Where a byte has the price w = p / q, and v itself touches t bytes,
//
//     time spent again  >=  sum over those values of min(c, w s)  +  w (t - budget),
//
// whose least value over all D is a minimum cut: an op that has run drags along those before it, and each of its values
// pays once for all its readers that have not run.
#pragma once

#include <cstdint>
#include <vector>

#include "sequence/problem.h"

namespace tide {

struct PriceArc {
  int value;  // -1: a precedence, from an op to one before it
  int from;   // the op; of a value its maker, -1 if it is there from the start
  int to;     // the reader, -1: the end
  int64_t amount;
};

struct PriceCut {
  int64_t flow = 0;  // least sum of min(q c, p s)
  Bytes held = 0;    // bytes that the cheapest D holds, those that v touches too
  std::vector<PriceArc> arcs;
};

// The least sum for op v at price p / q. `with_proof` fills in the flow that shows it.
PriceCut price_cut(const SequenceProblem& problem, int v, int64_t p, int64_t q, bool with_proof);

}  // namespace tide
