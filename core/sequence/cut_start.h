// Sequences to begin a search with: what the price cut at the highest op says is made again, is.
//
// The cut knows one moment, v, and the best price of a byte there: which ops run again behind it, all layers of a
// network at once, so that at v no more is held than there is room for. Each of these runs once more right before it is
// first needed behind v, with those that it needs. What else is too high is left to shaving.
#pragma once

#include <vector>

#include "sequence/problem.h"

namespace tide {

// Two at most: from the cut that holds no more than the budget at v and from the one that holds a little more.
// `order`: every op once. Nothing where no price makes it fit, or values may leave memory.
std::vector<std::vector<int>> cut_starts(const SequenceProblem& problem, const std::vector<int>& order, Bytes budget);

}  // namespace tide
