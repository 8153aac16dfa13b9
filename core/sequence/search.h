// Least time under bytes: a sequence with repeated runs whose peak is within a budget.
//
// Peak shaving gives the first one. Then, in steps: runs are moved to and fro where the peak allows, some repeated runs
// that stand together are taken away, and shaving with blurred prices repairs what that spoils. What has not become
// dearer stays; at the start of each round of steps a little more is let pass. Everything that is drawn comes from a
// seed, and nothing looks at a clock but `stop`: the same steps give the same sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/stopped.h"
#include "sequence/problem.h"

namespace tide {

struct SequenceOptions {
  Bytes budget = 0;
  int64_t steps = -1;  // at most; -1: any number
  uint64_t seed = 0;
  bool moves = true;                       // of the order
  bool repairs = true;                     // destroy and repair
  Cost enough = 0;                         // stop at so much time
  std::function<Stopped(Cost best)> stop;  // asked now and then: kComplete to go on, else why not
};

struct SequenceResult {
  bool found = false;  // within the budget; else the sequence is as low as shaving came
  Cost cost = 0;
  Bytes peak = 0;
  std::vector<int> order;
  int64_t steps = 0, chains = 0;
  Stopped stopped = Stopped::kComplete;
};

// `order`: where to begin; ops, some perhaps more than once.
SequenceResult search_sequence(const SequenceProblem& problem, const std::vector<int>& order,
                               const SequenceOptions& options);

}  // namespace tide
