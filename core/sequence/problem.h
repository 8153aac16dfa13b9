// Ops that may run more than once: what each makes and reads, and what running it costs. And transfers: a value may be
// stored in a slow memory and loaded again, by ops of its own that run beside the others, one store and one load at a
// time.
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

enum class Transfer : char { kNone, kStore, kLoad };

struct SequenceOp {
  std::vector<int> reads;  // values, each once
  std::vector<int> makes;  // values
  std::vector<int> after;  // ops whose first run comes before this one's, though no value says so
  Cost cost = 0;
  Bytes workspace = 0;
  Bytes saving = 0;          // of what it touches, at most, where it writes over what it reads (bounds alone count it)
  bool once = false;         // it must not run again
  std::vector<int> until{};  // ops that change what it reads: it runs before the first run of each
  // A store reads a value and makes its copy, which takes no room; where it stands it has ended. A load reads that copy
  // and makes the value; where it stands it begins. Either may not run at all.
  Transfer transfer = Transfer::kNone;
};

struct SequenceProblem {
  std::vector<SequenceOp> ops;  // numbered topologically
  std::vector<SequenceValue> values;

  std::vector<int> stores{};  // per value the op that stores it, the next op loads it; -1: it stays. Or empty.

  int n() const { return static_cast<int>(ops.size()); }
  // Of all ops once, transfers apart.
  Cost cost() const {
    Cost sum = 0;
    for (const SequenceOp& op : ops) sum += op.transfer == Transfer::kNone ? op.cost : 0;
    return sum;
  }
  bool transfers() const { return !stores.empty(); }
  // Makes a value one that may be stored and loaded, each in so much time.
  void allow_transfers(int value, Cost store, Cost load) {
    const int copy = static_cast<int>(values.size()), op = n();
    values.push_back({0, op, false});
    ops.push_back({{value}, {copy}, {}, store, 0, 0, false, {}, Transfer::kStore});
    ops.push_back({{copy}, {value}, {}, load, 0, 0, false, {}, Transfer::kLoad});
    stores.resize(values.size(), -1);
    stores[value] = op;
  }
};

}  // namespace tide
