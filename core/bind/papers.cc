// Python bindings of the papers' searches. No logic.
#include "bind/record.h"
#include "bind/search.h"
#include "papers/hmcos.h"
#include "papers/sample.h"
#include "papers/serenity.h"

using tide::Bytes;

TIDE_NAMED(tide::serenity::Flag, "'solution', 'no solution', 'timeout', 'stopped'", "solution", "no solution",
           "timeout", "stopped")

namespace bind {

namespace {

using namespace nb::literals;

tide::hmcos::Result hmcos(const tide::Model& model, const std::vector<int>& rpo, const std::vector<bool>& cell_output,
                          const std::vector<int>& scope, const Named& switches, double seconds, size_t memory_bytes,
                          nb::object report) {
  tide::hmcos::Options options;
  options.scope = scope;
  options.cell_output.assign(cell_output.begin(), cell_output.end());
  options.sequences = switches.at("sequences");
  options.cells = switches.at("cells");
  options.borders = switches.at("borders");
  if (!switches.at("next")) options.dissolve = tide::hmcos::Dissolve::kMakers;
  if (switches.at("users")) options.dissolve = tide::hmcos::Dissolve::kUsers;
  options.budget = switches.at("budget");
  options.simple = switches.at("simple");
  options.memo = switches.at("memo");
  options.seconds = seconds;
  options.memory_bytes = memory_bytes;
  options.report = reporter<Bytes, double>(report);
  return unlocked([&] { return tide::hmcos::schedule(model, rpo, options); });
}

void bind_hmcos(nb::module_& m) {
  using I = tide::hmcos::Iteration;
  record(m, "HmcosIteration", "One turn of HMCOS's Algorithm 1.",
         Field{"peak_bytes", &I::peak, "Bytes of the schedule's peak."},
         Field{"vertices", &I::vertices, "Vertices of the top level: intact groups and free sequences."},
         Field{"groups", &I::groups, "Groups among these."},
         Field{"freed_sequences", &I::freed, "Sequences that earlier iterations took out of their groups."},
         Field{"dissolved_groups", &I::dissolved, "Groups dissolved after this iteration."},
         Field{"expanded", &I::expanded, "Vertices tried in a state of the top level."},
         Field{"states", &I::states, "Partial schedules kept at the top level."},
         Field{"pruned", &I::pruned, "Partial schedules over the budget, groups' included."},
         Field{"group_searches", &I::group_searches, "Runs of Algorithm 2 inside a group."},
         Field{"group_expanded", &I::group_expanded, "Vertices tried inside groups."},
         Field{"group_states", &I::group_states, "Partial schedules kept inside groups."},
         Field{"simple_schedules", &I::simple, "Groups whose simple schedule was taken."},
         Field{"memo_hits", &I::memo_hits, "Schedules of groups known from before."},
         Field{"seconds", &I::seconds, "Seconds that the iteration took."});
  using R = tide::hmcos::Result;
  record(m, "HmcosResult", "What HMCOS found.", Field{"order", &R::order, "The best order, as positions of ops."},
         Field{"stopped", &R::stopped, "How the search ended."},
         Field{"peak_bytes", &R::peak, "Bytes of that order's peak."},
         Field{"start_peak_bytes", &R::start_peak, "Bytes of the peak of the order given to begin with."},
         Field{"kept_start", &R::kept_start, "Whether no better order was found."},
         Field{"cells", &R::cells, "Groups after step 1."}, Field{"borders", &R::borders, "Groups made by step 4."},
         Field{"sequences", &R::sequence_ops, "Ops of each sequence."},
         Field{"groups", &R::group_sequences, "Sequences of each group."},
         Field{"iterations", &R::iterations, "Iterations; the last one may be unfinished."},
         Field{"memory_bytes", &R::memory_bytes, "Bytes that partial schedules took at most."});
  m.def("hmcos", &hmcos, "model"_a, "rpo"_a, "cell_output"_a, "scope"_a, "switches"_a, "seconds"_a, "memory_bytes"_a,
        "report"_a.none(), "HMCOS from a reverse post-order. `report` is called with (best, seconds); true stops it.");
}

tide::serenity::Result serenity(const tide::Model& model, const std::vector<tide::serenity::Nodes>& segments,
                                bool soft_budget, bool printed, int64_t step_limit, double step_seconds, double seconds,
                                size_t memory_bytes, nb::object report) {
  tide::serenity::Options options;
  options.soft_budget = soft_budget;
  options.printed = printed;
  options.step_seconds = step_seconds;
  options.step_limit = step_limit;
  options.seconds = seconds;
  options.memory_bytes = memory_bytes;
  options.report = reporter<Bytes, double>(report);
  return unlocked([&] { return tide::serenity::schedule(model, segments, options); });
}

void bind_serenity(nb::module_& m) {
  using A = tide::serenity::Attempt;
  record(m, "SerenityAttempt", "One run of SERENITY's Algorithm 1.",
         Field{"segment", &A::segment, "Number of the segment."},
         Field{"budget", &A::budget, "Bytes of tau; -1 for none."},
         Field{"step_limit", &A::step_limit, "T, the signatures that a step may hold; -1 for none."},
         Field{"flag", &A::flag, "How the run ended."},
         Field{"states", &A::states, "Signatures stored, over all steps."},
         Field{"moves", &A::moves, "Pairs of a signature and a node of it that were tried."});
  using R = tide::serenity::Result;
  record(m, "SerenityResult", "What SERENITY found.", Field{"order", &R::order, "The order, as positions of ops."},
         Field{"peak", &R::peak, "Bytes of that order's peak."},
         Field{"kahn_peak", &R::kahn_peak, "Bytes of the peak of the segments as given, one after the other."},
         Field{"segment_peaks", &R::segment_peaks, "Bytes of the order's peak in each segment."},
         Field{"attempts", &R::attempts, "Runs of Algorithm 1."},
         Field{"solved", &R::solved, "Segments with an order of least peak."},
         Field{"states", &R::states, "States of all attempts."}, Field{"moves", &R::moves, "Moves of all attempts."},
         Field{"widest", &R::widest, "Signatures in the largest search step."},
         Field{"stopped", &R::stopped, "How the search ended."},
         Field{"memory_bytes", &R::memory_bytes, "Bytes that stored states took at most."});
  m.def("serenity", &serenity, "model"_a, "segments"_a, "soft_budget"_a, "printed"_a, "step_limit"_a, "step_seconds"_a,
        "seconds"_a, "memory_bytes"_a, "report"_a.none(),
        "SERENITY over segments of nodes. `report` is called with (best, seconds); true stops it.");
}

tide::Sample sample(const tide::Model& model, int64_t orders, uint64_t seed, nb::object report) {
  const auto tell = reporter<int64_t>(report);
  return unlocked([&] { return tide::sample(model, orders, seed, tell); });
}

}  // namespace

void papers(nb::module_& m) {
  bind_hmcos(m);
  bind_serenity(m);
  record(m, "Sample", "Peaks of random orders.", Field{"orders", &tide::Sample::orders, "Orders drawn."},
         Field{"peaks", &tide::Sample::peaks, "How many orders have each peak (bytes, ascending)."});
  m.def("sample", &sample, "model"_a, "orders"_a, "seed"_a, "report"_a.none(),
        "Draws orders, each step one of the ready ops. `report` is called with how many there are; true ends it.");
}

}  // namespace bind
