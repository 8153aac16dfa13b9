// SERENITY: dynamic programming over zero-indegree sets (Ahn et al., MLSys 2020), written from the paper.
//
//   ops --divide--> segments, each run to its end before the next --Algorithm 2 around Algorithm 1--> order
//
// A search step i holds M_i: the sets of i ops that can have run, each once, with the order of least peak that leads
// to it. The paper's signature is the zero-indegree set z, the ops that may run next. It and the set D of ops that
// have run say the same: z is the set of minimal elements of what has not run, and what has not run is z and all that
// depends on it. D is the key here. Nothing is shared with the exact scheduler but the model of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/model.h"
#include "base/stopped.h"

namespace tide::serenity {

struct Options {
  bool soft_budget = true;     // Algorithm 2; without it, plain Algorithm 1
  bool printed = false;        // Algorithm 2's update as printed, which may end nowhere; else within a bracket
  int64_t step_limit = 65536;  // T: signatures that a search step of Algorithm 2 may hold
  double step_seconds = 0;     // T as the paper has it: wall seconds of a search step, instead of signatures; 0: none
  double seconds = 60;
  size_t memory_bytes = size_t{2} << 30;
  // Called now and then with (best peak so far, seconds so far); true stops the search.
  std::function<bool(Bytes, double)> report;
};

enum class Flag { kSolution, kNoSolution, kTimeout, kStopped };

// One run of Algorithm 1.
struct Attempt {
  int segment = 0;
  Bytes budget = -1;        // tau; -1: none
  int64_t step_limit = -1;  // T; -1: none
  Flag flag = Flag::kStopped;
  int64_t states = 0;  // signatures stored, over all steps
  int64_t moves = 0;   // pairs of a signature and a node of it that were tried
};

struct Result {
  std::vector<int> order;
  Bytes peak = 0;
  Bytes kahn_peak = 0;               // of the segments as given, one after the other
  std::vector<Bytes> segment_peaks;  // of `order`
  std::vector<Attempt> attempts;
  int solved = 0;                 // segments with an order of least peak
  int64_t states = 0, moves = 0;  // of all attempts
  int64_t widest = 0;             // signatures in the largest search step
  Stopped stopped = Stopped::kComplete;
  size_t memory_bytes = 0;  // largest use by stored states
};

// Ops that run one right after the other. Joining them must lose no order of least peak: the first has the largest
// footprint wherever the sequence runs, and what the others touch begins in the sequence.
using Node = std::vector<int>;
using Nodes = std::vector<Node>;

// `segments` partition the ops; joined up they are an order (each segment's nodes in Kahn's order).
Result schedule(const Model& model, const std::vector<Nodes>& segments, const Options& options);

}  // namespace tide::serenity
