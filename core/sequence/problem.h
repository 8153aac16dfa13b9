// Ops that may run more than once: what each makes and reads, and what running it costs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/model.h"

namespace tide {

using Cost = int64_t;  // time of an op, in whatever unit the caller counts; sums fit

struct SequenceValue {
  Bytes size = 0;
  int maker = -1;     // op; -1: there from the start
  bool kept = false;  // there to the end
};

struct SequenceOp {
  std::vector<int> reads;  // values, each once
  std::vector<int> makes;  // values
  std::vector<int> after;  // ops whose first run comes before this one's, though no value says so
  Cost cost = 0;
  Bytes workspace = 0;
  Bytes saving = 0;          // of what it touches, at most, where it writes over what it reads (bounds alone count it)
  bool once = false;         // it must not run again
  std::vector<int> until{};  // ops that change what it reads: it runs before the first run of each
};

struct SequenceProblem {
  std::vector<SequenceOp> ops;  // numbered topologically
  std::vector<SequenceValue> values;

  int n() const { return static_cast<int>(ops.size()); }
  Cost cost() const {
    Cost sum = 0;
    for (const SequenceOp& op : ops) sum += op.cost;
    return sum;
  }
};

}  // namespace tide
