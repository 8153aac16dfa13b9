// Beam search: keeps the `width` best states of each level. Width 1 is a greedy order.
#pragma once

#include <functional>

#include "order/walker.h"

namespace tide {

struct BeamResult {
  std::vector<int> macros;  // an order, in the problem's direction; empty if every state reached `limit`
  Bytes peak = 0;
  int64_t states = 0;
  int64_t work = 0;  // nanoseconds, about
};

// States are compared by (max(peak so far, bound), f). States whose peak reaches `limit` are dropped. Ties are broken
// by `seed`, which makes it possible to draw several orders of equal peak. `stop` is asked now and then.
BeamResult beam(const Problem& problem, int width, Bytes bound, Bytes limit, uint64_t seed,
                const std::function<bool()>& stop);

}  // namespace tide
