// The hierarchical graph of HMCOS, section 3.1: ops joined to sequences, sequences put into groups.
#pragma once

#include <utility>
#include <vector>

#include "papers/hmcos.h"

namespace tide::hmcos {

// Sequences are numbered by their first ops, which is topological: what enters a sequence enters at its first op, what
// leaves it leaves from its last. A sequence is in at most one group; groups are convex, and contracting all of them,
// or any of them, leaves no cycle.
struct Hierarchy {
  std::vector<std::vector<int>> sequences;     // ops in order
  std::vector<std::vector<int>> preds, succs;  // per sequence, ascending
  std::vector<std::vector<int>> groups;        // sequences, ascending; two or more each
  std::vector<int> group_of;                   // per sequence; -1: free
  int cells = 0;                               // groups after step 1
  int borders = 0;                             // groups made by step 4
};

// Storages that the ops of these sequences touch, with how many of the ops touch each, ascending.
std::vector<std::pair<int, int>> touched_by(const Model& model, const Hierarchy& h, const std::vector<int>& members);

Hierarchy build_hierarchy(const Model& model, const Options& options);

}  // namespace tide::hmcos
