// HMCOS: hierarchical memory-constrained operator scheduling (Wang et al., DAC 2022), written from the paper.
//
//   ops --join (3.1.1)--> sequences --cells and borders (3.1.2)--> groups --Algorithm 1--> dissolve, schedule again
//
// Nothing here is shared with the exact scheduler but the model of memory and the minimum cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/model.h"
#include "base/stopped.h"

namespace tide::hmcos {

// Which groups Algorithm 1 takes apart: those that make what is alive at the peak, and none, the next (at the peak or
// later) or all of those that use it.
enum class Dissolve { kMakers, kNext, kUsers };

struct Options {
  bool sequences = true;  // join ops to sequences (3.1.1)
  bool cells = true;      // groups from cells (3.1.2, step 1)
  bool borders = true;    // move the borders of cells (3.1.2, steps 2 to 4)
  Dissolve dissolve = Dissolve::kNext;
  bool budget = true;             // optimisation 1: adaptive soft budgeting
  bool simple = true;             // optimisation 2: scheduling strategy selection
  bool memo = true;               // optimisation 3: group schedule memoisation
  std::vector<char> cell_output;  // per op, whether a sequence that begins with it is the output vertex of a cell
  std::vector<int> scope;         // per op, its cell, or -1, if cells are given; then `cell_output` is their last ops
  double seconds = 60;
  size_t memory_bytes = size_t{2} << 30;
  // Called now and then with (best peak so far, seconds so far); true stops the search.
  std::function<bool(Bytes, double)> report;
};

// One turn of Algorithm 1, as in the paper's Figure 5.
struct Iteration {
  Bytes peak = 0;
  int vertices = 0;            // of the hierarchical graph's top level: intact groups and free sequences
  int groups = 0;              // of these, the groups
  int freed = 0;               // sequences taken out of their groups by earlier iterations
  int dissolved = 0;           // groups dissolved after this iteration
  int64_t expanded = 0;        // vertices tried in a state of the top level
  int64_t states = 0;          // partial schedules kept at the top level
  int64_t pruned = 0;          // partial schedules over the budget, groups' included
  int64_t group_searches = 0;  // runs of Algorithm 2 inside a group
  int64_t group_expanded = 0;
  int64_t group_states = 0;
  int64_t simple = 0;  // groups whose simple schedule was taken
  int64_t memo_hits = 0;
  double seconds = 0;
};

struct Result {
  std::vector<int> order;
  Bytes peak = 0;
  Bytes start_peak = 0;     // of the order given to begin with
  bool kept_start = false;  // no better order was found
  Stopped stopped = Stopped::kComplete;
  int sequences = 0;
  int cells = 0;    // groups after step 1
  int borders = 0;  // groups made by step 4
  int groups = 0;   // what is left of both
  std::vector<std::vector<int>> sequence_ops, group_sequences;
  std::vector<Iteration> iterations;  // the last one may be unfinished
  size_t memory_bytes = 0;            // largest use by stored partial schedules
};

// Algorithm 1. `rpo` is a reverse post-order of the ops: the simple schedule, and what is returned if nothing better
// is found.
Result schedule(const Model& model, const std::vector<int>& rpo, const Options& options);

}  // namespace tide::hmcos
