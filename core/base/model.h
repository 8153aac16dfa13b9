// The scheduling problem as the core sees it: ops, the storages they touch, and what may be written in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tide {

using Bytes = int64_t;

// An op may run in place over `storage` if that storage dies there; it then needs `saving` bytes less.
struct Overwrite {
  int storage;
  Bytes saving;
};

// A block of memory, live from the first op that touches it (or from the start) to the last (or to the end).
struct Storage {
  Bytes size;
  std::vector<int> users;  // ascending
  bool at_start;
  bool at_end;
};

// Ops are numbered topologically: predecessors have smaller numbers.
struct Model {
  int n = 0;
  std::vector<std::vector<int>> preds;  // per op, ascending
  std::vector<Storage> storages;
  std::vector<Bytes> workspace;                    // per op
  std::vector<std::vector<Overwrite>> overwrites;  // per op

  std::vector<std::vector<int>> succs;    // derived
  std::vector<std::vector<int>> touched;  // derived: storages per op, ascending

  void derive();
};

// An order step by step, by the memory model of docs/contract.md (Profile in lowtide.analyse.liveness).
struct Lives {
  std::vector<Bytes> footprint;               // bytes live while each step runs
  std::vector<Bytes> transient;               // bytes live after it
  std::vector<int> first, last;               // per storage, both inclusive; -1: before step 0; n: to the end
  std::vector<std::pair<int, int>> in_place;  // op and which of its overwrites saves most, step by step
};
Lives lives(const Model& model, const std::vector<int>& order);

// Its footprints alone.
std::vector<Bytes> footprints(const Model& model, const std::vector<int>& order);
Bytes peak(const Model& model, const std::vector<int>& order);

// Every footprint is a multiple of this.
Bytes unit_of(const Model& model);

}  // namespace tide
