// Simulated annealing over sequences with repeated runs: a run is put in, taken away or moved, anywhere.
//
// Source: "A Fast Heuristic to Optimize Time-Space Tradeoff for Large Models" (FastSA, 2023): random changes of a
// sequence whose peak is told in the logarithm of its length, so that a million of them are tried. It stands here to
// be compared with peak shaving, which knows where the peak is and changes nothing else.
#pragma once

#include "sequence/search.h"

namespace tide {

// Of `options` the budget, the steps (changes that are tried), the seed and `stop` count.
SequenceResult anneal_sequence(const SequenceProblem& problem, const std::vector<int>& order,
                               const SequenceOptions& options);

}  // namespace tide
