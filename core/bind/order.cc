// Python bindings of the exact scheduler. No logic.
#include "bind/record.h"
#include "bind/search.h"
#include "order/fuse.h"
#include "order/restore_own_order.h"
#include "order/solve.h"

using tide::Bytes;

TIDE_NAMED(tide::Proof, "'none', 'cut', 'search'", "none", "cut", "search")
TIDE_NAMED(tide::Direction, "'', 'forward', 'reversed', 'propagation'", "", "forward", "reversed", "propagation")

namespace bind {

namespace {

using namespace nb::literals;

tide::Result solve(const tide::Model& model, const std::vector<int>& start, const Named& switches, double seconds,
                   size_t memory_bytes, uint64_t seed, Bytes budget, bool until_decided, bool until_impossible,
                   int64_t first_slice, nb::object report, size_t reach_memory_bytes, double gap, int64_t most_states,
                   int64_t most_work) {
  tide::Options options;
  options.switches = with(options.switches, switches);
  options.seconds = seconds;
  options.memory_bytes = memory_bytes;
  options.seed = seed;
  options.budget = budget;
  options.until_decided = until_decided;
  options.until_impossible = until_impossible;
  options.first_slice = first_slice;
  options.most_states = most_states;
  options.most_work = most_work;
  options.reach_memory_bytes = reach_memory_bytes;
  options.gap = gap;
  options.report = reporter<Bytes, Bytes, double>(report);
  return unlocked([&] { return tide::solve(model, start, options); });
}

}  // namespace

void order(nb::module_& m) {
  record(m, "TracePoint", "The bounds after one of them got better.",
         Field{"seconds", &tide::Result::Point::seconds, "Seconds since the search began."},
         Field{"best", &tide::Result::Point::best, "Bytes of the best order's peak so far."},
         Field{"bound", &tide::Result::Point::bound, "Bytes that no order stays below, as far as proved."});
  using R = tide::Result;
  record(m, "Solution", "What the exact scheduler found and proved.",
         Field{"order", &R::order, "The best order, as positions of ops."},
         Field{"peak", &R::peak, "Bytes of that order's peak."},
         Field{"lower_bound", &R::lower_bound, "Bytes that no order stays below."},
         Field{"proof", &R::proof, "What the lower bound rests on."},
         Field{"cut_op", &R::cut_op, "The op whose minimum cut is the best one; -1: none was looked at."},
         Field{"cut_bound", &R::cut_bound, "Bytes of that cut."},
         Field{"refuted", &R::refuted, "By search: no order has a peak of so many bytes or less."},
         Field{"direction", &R::direction, "Which search refuted that."},
         Field{"refuting_states", &R::refuting_states, "States that the refutation expanded."},
         Field{"stopped", &R::stopped, "How the search ended."},
         Field{"reduced_ops", &R::reduced_ops, "Ops left once chains are fused."},
         Field{"states", &R::states, "States expanded by all engines together."},
         Field{"beam_states", &R::beam_states, "States expanded by beams."},
         Field{"work", &R::work, "Nanoseconds of work of engines, beams and cuts, about."},
         Field{"cuts", &R::cuts, "Minimum cuts, propagation's among them."},
         Field{"symmetries", &R::symmetries, "Generators found."},
         Field{"trace", &R::trace, "Each time the best or the bound got better."},
         Field{"memory_bytes", &R::memory_bytes, "Bytes that stored states took at most."});
  m.def("solve", &solve, "model"_a, "start"_a, "switches"_a, "seconds"_a, "memory_bytes"_a, "seed"_a, "budget"_a,
        "until_decided"_a, "until_impossible"_a, "first_slice"_a, "report"_a.none(),
        "reach_memory_bytes"_a = tide::Options().reach_memory_bytes, "gap"_a = 0.0, "most_states"_a = 0,
        "most_work"_a = 0,
        "The order of least peak, from `start` on. `report` is called with (best, bound, seconds); true stops it.");

  record(m, "CutArc", "Flow over one arc of a cut's network.",
         Field{"storage", &tide::CutArc::storage, "Position of the storage; -1 for a precedence."},
         Field{"start", &tide::CutArc::from, "Position of the op where the arc begins; -1 for the source."},
         Field{"end", &tide::CutArc::to, "Position of the op where the arc ends; -1 for the sink."},
         Field{"bytes", &tide::CutArc::bytes, "Bytes that flow over the arc."});
  record(m, "CutCase", "The cut at an op that runs in place over one storage, or over none.",
         Field{"storage", &tide::CutCase::storage, "Position of the storage overwritten; -1 for none."},
         Field{"value", &tide::CutCase::value, "Bytes of the cut."},
         Field{"downset", &tide::CutCase::downset, "Ops that ran before in the cheapest case, ascending."},
         Field{"flow", &tide::CutCase::flow, "A maximum flow, which proves the value."});
  record(m, "Cut", "The footprint of an op that no order beats.",
         Field{"value", &tide::Cut::value, "Bytes of the least case."},
         Field{"cases", &tide::Cut::cases, "One case for each way to run in place."});
  m.def(
      "cut_at", [](const tide::Model& model, int op) { return tide::CutBound(model).at(op, true); }, "model"_a, "op"_a,
      "The minimum cut at an op, with the flows that prove it.");

  m.def(
      "fused",
      [](const tide::Model& model, size_t reach_memory_bytes) {
        return unlocked([&] { return tide::fuse(model, tide::FusionRules(), reach_memory_bytes); });
      },
      "model"_a, "reach_memory_bytes"_a = tide::Options().reach_memory_bytes,
      "Chains of ops that some best order runs one right after the other.");
  m.def("restore_own_order", &tide::restore_own_order, "model"_a, "order"_a, "budget"_a,
        "The order with stretches put back into own order, where no footprint then exceeds the budget.");
  m.def(
      "draw",
      [](const tide::Model& model, Bytes budget, int width, uint64_t seed, bool reversed) {
        return tide::draw(model, budget, width, seed, reversed, [] { return false; });
      },
      "model"_a, "budget"_a, "width"_a, "seed"_a, "reversed"_a,
      "An order within the budget that a beam finds, or an empty one.");
}

}  // namespace bind
