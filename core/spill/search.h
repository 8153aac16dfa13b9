// Least traffic over orders: a small fast memory, from which storages leave and come back.
//
// A state is what has run (D), which live storages are out (O), and which have a paid copy outside (C). Nothing leaves
// before it has to: only when an op does not fit does a minimal set of storages leave, and then both the write (if
// there is no copy) and the later read are paid at once. So a storage that is out costs nothing more, and
//
//    state B makes state A superfluous if both have run the same ops and
//    cost(B) + what it would cost B to put out everything that is out in A  <=  cost(A)
//
// Addresses are not looked at: storages fit if their sum does. docs/proofs.md, section 20.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/model.h"

namespace tide {

struct SpillStorage {
  Bytes room;                // in the fast memory
  Bytes bytes;               // that a move carries
  Bytes cost = 0;            // what each of those moves counts for here (0: leaving is free)
  std::vector<int> users;    // ascending; the first of an order begins the storage
  std::vector<int> writers;  // a subset; each makes older copies stale
  bool copied;               // a copy exists until the first write
  bool written_free;         // after the last write a copy exists
  bool stays;                // live after its last touch until a copy exists (an output not written yet)
  bool overwritable;         // it dies at its last touch
};

struct SpillModel {
  int n = 0;
  std::vector<std::vector<int>> preds;
  std::vector<SpillStorage> storages;
  std::vector<Bytes> workspace;
  std::vector<std::vector<Overwrite>> overwrites;
  Bytes capacity = 0;
  bool write_once = true;
  int gate = -1;  // there is room for everything until this op runs
  // Sets of ops and what running them costs at least, whatever else is done; no bytes are counted in two of them.
  std::vector<std::pair<std::vector<int>, Bytes>> segments;
};

enum class Ended { kComplete, kTime, kMemory, kStates, kInterrupt };

struct SpillOptions {
  bool safe_moves = true;   // run at once what cannot hurt
  bool dominance = true;    // drop superfluous states
  int width = 0;            // states kept per number of ops run; 0: best-first search, exact
  int64_t state_limit = 0;  // best-first search stops there
  int cover_limit = 2000;   // sets that make room for an op at a state; what is left out is known of the bound
  int beam_covers = 24;     // the same in beams
  size_t memory_bytes = 0;
  Bytes upper = -1;  // only answers below are looked for; -1: any
  uint64_t seed = 0;
  int jitter = 0;               // beams: share of ties and near ties broken at random, in 1/256
  std::function<Ended()> stop;  // asked now and then: kComplete to go on, else why not
};

struct SpillResult {
  bool found = false;
  Bytes cost = 0;
  Bytes bound = 0;  // no answer costs less (best-first search)
  bool proved = false;
  std::vector<int> order;
  std::vector<std::pair<int, int>> leaves;  // (step, storage): before that step's op
  int64_t states = 0;
  Ended ended = Ended::kComplete;  // without an end, nothing is proved
};

SpillResult spill_search(const SpillModel& model, const SpillOptions& options);

}  // namespace tide
