// The exact scheduler: reductions, bounds, beams and searches, put together until the peak is proved least.
#pragma once

#include <functional>
#include <string>

#include "base/stopped.h"
#include "order/cut.h"
#include "order/fuse.h"
#include "order/search.h"

namespace tide {

struct Switches {
  FusionRules fusion;
  SearchRules search;
  bool cut = true;       // lower bounds by minimum cut
  bool beams = true;     // upper bounds by beam search
  bool forward = true;   // search from the start
  bool reversed = true;  // search from the end
  bool best_first = true;
  bool nested = true;     // nested-commit depth-first search
  bool propagate = true;  // precedences that a budget implies
  bool symmetry = true;   // one state stands for all its images

  // By name, those of fusion as fuse_a, fuse_b, fuse_c; null if there is none.
  bool* named(const std::string& name);
};

struct Options {
  Switches switches;
  double seconds = 60;
  size_t memory_bytes = size_t{2} << 30;
  uint64_t seed = 0;
  Bytes budget = -1;              // asked about if it lies between the bounds; -1: none
  bool until_decided = false;     // stop once it is known whether some order is within the budget
  bool until_impossible = false;  // stop once it is known that none is
  double gap = 0;                 // stop once the bound is within this part of the best; 0: once they are equal
  int64_t first_slice = 2000;     // states an engine expands before the next one gets its turn
  int64_t most_work = 0;          // nanoseconds of work, about, after which all engines stop; 0: any number
  int64_t most_states = 0;        // states of the leading engine, after which all engines stop; 0: any number
  // Bytes for which op must run before which; where they do not do, pairs that are far apart are not known.
  size_t reach_memory_bytes = size_t{256} << 20;
  // Called now and then with (best, bound, seconds so far); true stops the search.
  std::function<bool(Bytes, Bytes, double)> report;
};

enum class Proof { kNone, kCut, kSearch };
enum class Direction { kNone, kForward, kReversed, kPropagation };

struct Result {
  std::vector<int> order;
  Bytes peak = 0;
  Bytes lower_bound = 0;
  Proof proof = Proof::kNone;  // of the lower bound
  int cut_op = -1;
  Bytes cut_bound = 0;                     // the best bound by a cut, which `cut_op` attains
  Bytes refuted = 0;                       // by search: no order has a peak of this or less
  Direction direction = Direction::kNone;  // how
  int64_t refuting_states = 0;
  Stopped stopped = Stopped::kComplete;
  int reduced_ops = 0;
  int64_t states = 0;  // expanded by all engines together
  int64_t beam_states = 0;
  int64_t work = 0;    // of engines, beams and cuts: nanoseconds, about
  int64_t cuts = 0;    // propagation's included
  int symmetries = 0;  // generators found
  struct Point {
    double seconds;
    Bytes best, bound;
  };
  std::vector<Point> trace;  // each time the best or the bound got better
  size_t memory_bytes = 0;   // largest use by stored states
};

// `start` is an order to begin with (the model's own).
Result solve(const Model& model, const std::vector<int>& start, const Options& options);

}  // namespace tide
