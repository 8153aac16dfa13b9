// Python bindings of sequences with repeated runs.
#include <chrono>
#include <ctime>
#include <limits>
#include <stdexcept>

#include "bind/record.h"
#include "bind/search.h"
#include "sequence/anneal.h"
#include "sequence/cut_start.h"
#include "sequence/price_cut.h"
#include "sequence/search.h"
#include "sequence/shave.h"
#include "sequence/timeline.h"

using tide::Bytes;
using tide::Cost;

namespace bind {

namespace {

using namespace nb::literals;

using OpRow =
    std::tuple<std::vector<int>, std::vector<int>, std::vector<int>, Cost, Bytes, Bytes, bool, std::vector<int>>;
using ValueRow = std::tuple<Bytes, int, bool>;
using TransferRow = std::tuple<int, Cost, Cost>;

tide::SequenceProblem make(const std::vector<OpRow>& ops, const std::vector<ValueRow>& values,
                           const std::vector<TransferRow>& transfers) {
  tide::SequenceProblem problem;
  for (const auto& [reads, makes, after, cost, workspace, saving, once, until] : ops)
    problem.ops.push_back({reads, makes, after, cost, workspace, saving, once, until});
  for (const auto& [size, maker, kept] : values) problem.values.push_back({size, maker, kept});
  for (const auto& [value, store, load] : transfers) problem.allow_transfers(value, store, load);
  return problem;
}

std::vector<Bytes> footprints(const tide::SequenceProblem& problem, const std::vector<int>& order) {
  const tide::Timeline line(problem, order);
  std::vector<Bytes> bytes;
  for (int slot = line.begin(); slot != line.end(); slot = line.next(slot)) bytes.push_back(line.at(slot));
  return bytes;
}

// Random changes of a sequence, some taken back: what it is after each, and its peak.
std::vector<std::pair<std::vector<int>, Bytes>> shuffle(const tide::SequenceProblem& problem,
                                                        const std::vector<int>& order, int steps, uint64_t seed) {
  tide::Timeline line(problem, order);
  tide::Shaver random(line, seed);
  std::vector<std::pair<std::vector<int>, Bytes>> seen;
  for (int i = 0; i < steps; ++i) {
    const size_t mark = line.mark();
    for (int k = random.below(8); k >= 0; --k) random.jolt();
    random.wander(std::numeric_limits<Bytes>::max(), 1);
    if (random.below(4) == 0) line.undo(mark);
    if (random.below(16) == 0) line.spread();
    seen.emplace_back(line.order(), line.peak());
  }
  return seen;
}

// Seconds of processor time that so many runs take which are put in somewhere, at random, and taken away again, the
// peak being read each time.
double put_and_take(const tide::SequenceProblem& problem, const std::vector<int>& order, int rounds, uint64_t seed) {
  tide::Timeline line(problem, order);
  tide::Shaver random(line, seed);
  struct Place {
    int op, slot, before;
  };
  std::vector<Place> places;
  constexpr int kPlaces = 4096;
  for (int tries = 0; tries < 1000 * kPlaces && static_cast<int>(places.size()) < kPlaces; ++tries) {
    const int op = random.below(problem.n()), slot = 1 + random.below(line.end() - 1);
    if (line.op(slot) < 0 && !problem.ops[op].once && line.can_put(op, slot))
      places.push_back({op, slot, line.before(slot)});
  }
  if (places.empty()) return 0;
  const Bytes before = line.peak();
  Bytes most = before;
  const std::clock_t began = std::clock();
  for (int i = 0; i < rounds; ++i) {
    const Place& place = places[i % places.size()];
    const size_t mark = line.mark();
    line.put(place.op, place.slot, place.before);
    most = std::max(most, line.peak());
    line.undo(mark);
  }
  const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  if (line.peak() != before || most < before) throw std::logic_error("what was put in was not taken away");
  return seconds;
}

using Searcher = tide::SequenceResult (*)(const tide::SequenceProblem&, const std::vector<int>&,
                                          const tide::SequenceOptions&);

tide::SequenceResult search_with(Searcher searcher, const tide::SequenceProblem& problem, const std::vector<int>& order,
                                 tide::SequenceOptions options, double seconds, nb::handle report) {
  const auto began = std::chrono::steady_clock::now();
  const auto ask = reporter<double, Cost>(report);
  double next = 0;
  options.stop = [&](Cost best) {
    const double now = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (now > seconds) return tide::Stopped::kTime;
    if (now < next) return tide::Stopped::kComplete;
    next = now + 0.1;
    return ask(now, best) ? tide::Stopped::kInterrupt : tide::Stopped::kComplete;
  };
  return unlocked([&] { return searcher(problem, order, options); });
}

tide::SequenceResult search(const tide::SequenceProblem& problem, const std::vector<int>& order, Bytes budget,
                            uint64_t seed, double seconds, int64_t steps, Cost enough, bool moves, bool repairs,
                            nb::handle report) {
  tide::SequenceOptions options;
  options.budget = budget;
  options.seed = seed;
  options.steps = steps;
  options.enough = enough;
  options.moves = moves;
  options.repairs = repairs;
  return search_with(tide::search_sequence, problem, order, options, seconds, report);
}

tide::SequenceResult anneal(const tide::SequenceProblem& problem, const std::vector<int>& order, Bytes budget,
                            uint64_t seed, double seconds, int64_t steps, nb::handle report) {
  tide::SequenceOptions options;
  options.budget = budget;
  options.seed = seed;
  options.steps = steps;
  return search_with(tide::anneal_sequence, problem, order, options, seconds, report);
}

}  // namespace

void sequence(nb::module_& m) {
  nb::class_<tide::SequenceProblem>(m, "SequenceProblem",
                                    "Ops: (reads, makes, after, cost, workspace, saving, once, until); "
                                    "values: (size, maker, kept); moves: value, out, in")
      .def(
          "__init__",
          [](tide::SequenceProblem* self, const std::vector<OpRow>& ops, const std::vector<ValueRow>& values,
             const std::vector<TransferRow>& transfers) {
            new (self) tide::SequenceProblem(make(ops, values, transfers));
          },
          "ops"_a, "values"_a, "transfers"_a = std::vector<TransferRow>())
      .def("footprints", &footprints, "order"_a, "Bytes live while each run of a sequence of ops is on.")
      .def(
          "cost",
          [](const tide::SequenceProblem& problem, const std::vector<int>& order) {
            return tide::Timeline(problem, order).cost();
          },
          "order"_a, "Time of a sequence, until its last op has ended.")
      .def("shuffle", &shuffle, "order"_a, "steps"_a, "seed"_a,
           "A sequence after so many random changes of it, and the peak after each.")
      .def("put_and_take", &put_and_take, "order"_a, "rounds"_a, "seed"_a,
           "Processor seconds of so many runs put in, the peak read, and taken away; 0 if none can be.");
  using R = tide::SequenceResult;
  record(m, "SequenceResult", "What the search for a sequence with repeated runs found.",
         Field{"found", &R::found, "Whether the peak is within the budget."},
         Field{"cost", &R::cost, "Time of all runs."}, Field{"peak", &R::peak, "Bytes."},
         Field{"order", &R::order, "The ops as they run, some of them more than once."},
         Field{"steps", &R::steps, "Repairs that were tried."},
         Field{"chains", &R::chains, "Chains of repeated runs that were tried."},
         Field{"stopped", &R::stopped, "How the search ended."});
  m.def("search_sequence", &search, "problem"_a, "order"_a, "budget"_a, "seed"_a, "seconds"_a, "steps"_a = -1,
        "enough"_a = 0, "moves"_a = true, "repairs"_a = true, "report"_a = nb::none(),
        "Least time of a sequence whose peak is within a budget, by peak shaving and repairs.");
  m.def("anneal_sequence", &anneal, "problem"_a, "order"_a, "budget"_a, "seed"_a, "seconds"_a, "steps"_a,
        "report"_a = nb::none(), "Least time of a sequence whose peak is within a budget, by random changes.");
  m.def(
      "cut_starts",
      [](const tide::SequenceProblem& problem, const std::vector<int>& order, Bytes budget) {
        return unlocked([&] { return tide::cut_starts(problem, order, budget); });
      },
      "problem"_a, "order"_a, "budget"_a, "Sequences to begin a search with, by the price cut at the highest op.");
  using C = tide::PriceCut;
  m.def(
      "price_cut",
      [](const tide::SequenceProblem& problem, int op, int64_t p, int64_t q, int64_t before, int64_t after,
         const std::vector<int>& first, bool with_proof) {
        const tide::Prices prices{p, q, before, after};
        const C cut = unlocked([&] { return tide::price_cut(problem, op, prices, first, with_proof); });
        std::vector<std::tuple<int, int, int, int64_t>> arcs;
        for (const tide::PriceArc& arc : cut.arcs) arcs.emplace_back(arc.value, arc.from, arc.to, arc.amount);
        return std::make_tuple(cut.flow, cut.held, arcs, cut.again);
      },
      "problem"_a, "op"_a, "p"_a, "q"_a, "before"_a = 0, "after"_a = 0, "first"_a = std::vector<int>(),
      "with_proof"_a = false,
      "Least sum at prices when an op first runs, bytes held, flow (value, from, to, amount), ops run again.");
}

}  // namespace bind
