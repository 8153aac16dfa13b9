// Python bindings of placing. No logic, but for the parts that an exact search is asked about.
#include <algorithm>

#include "bind/record.h"
#include "bind/search.h"
#include "place/bound.h"
#include "place/exact.h"
#include "place/pack.h"

using tide::Bytes;
using tide::place::Problem;

// What a search answers: fits, proved never to, not known.
template <>
struct nanobind::detail::type_caster<tide::place::Fit> {
  NB_TYPE_CASTER(tide::place::Fit, const_name("bool | None"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    using tide::place::Fit;
    value = source.is(Py_True) ? Fit::kFits : source.is(Py_False) ? Fit::kNever : Fit::kUnknown;
    return source.is_none() || PyBool_Check(source.ptr());
  }
  static handle from_cpp(tide::place::Fit fit, rv_policy, cleanup_list*) noexcept {
    if (fit == tide::place::Fit::kUnknown) return none().release();
    return bool_(fit == tide::place::Fit::kFits).release();
  }
};

namespace bind {

namespace {

using namespace nb::literals;

using PieceRow = std::tuple<int, int64_t, int64_t, Bytes, Bytes>;  // buffer, start, end, low, size

Problem make_problem(const std::vector<Bytes>& sizes, const std::vector<Bytes>& alignments,
                     const std::vector<Bytes>& fixed, const std::vector<PieceRow>& pieces,
                     const std::vector<std::tuple<int, int, Bytes>>& pairs,
                     const std::vector<std::pair<int, int>>& apart) {
  Problem problem;
  size_t k = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int first = static_cast<int>(k);
    for (; k < pieces.size() && std::get<0>(pieces[k]) == static_cast<int>(i); ++k) {
      const auto& [buffer, start, end, low, size] = pieces[k];
      problem.pieces.push_back({start, end, low, low + size});
    }
    problem.buffers.push_back({sizes[i], alignments[i], fixed[i], first, static_cast<int>(k)});
  }
  for (const auto& [lower, upper, distance] : pairs) problem.pairs.push_back({lower, upper, distance});
  problem.apart = apart;
  return problem;
}

tide::place::Key key_of(const std::string& name) {
  const auto key = tide::place::key_named(name);
  if (!key) throw nb::key_error(name.c_str());
  return *key;
}

std::vector<tide::place::Rule> rules_of(const std::vector<std::pair<std::string, bool>>& named) {
  std::vector<tide::place::Rule> rules;
  for (const auto& [name, best_fit] : named) rules.push_back({key_of(name), best_fit});
  return rules;
}

std::vector<std::tuple<int, Bytes, Bytes>> at_peak(const Problem& problem) {
  const tide::place::Load all = tide::place::load(problem);
  std::vector<std::tuple<int, Bytes, Bytes>> there;
  if (all.steps.empty()) return there;
  const int64_t peak = all.steps[std::max_element(all.bytes.begin(), all.bytes.end()) - all.bytes.begin()];
  for (size_t i = 0; i < problem.buffers.size(); ++i)
    for (int k = problem.buffers[i].first; k < problem.buffers[i].last; ++k) {
      const tide::place::Piece& p = problem.pieces[k];
      if (p.start <= peak && peak < p.end) there.emplace_back(static_cast<int>(i), p.low, p.high - p.low);
    }
  return there;
}

Problem fixed_at(const Problem& problem, const std::vector<std::pair<int, Bytes>>& places) {
  Problem fixed = problem;
  for (const auto& [i, offset] : places) fixed.buffers.at(i).fixed = offset;
  return fixed;
}

// A stretch, as Python sees it.
struct Part {
  std::vector<int> members;
  Bytes bound = 0, unit = 1;
  bool proves = false;
};

// The stretches of a problem that no buffer crosses, as the exact search takes them.
struct Exact {
  struct Stretch {
    std::vector<int> members;
    Problem problem;
    tide::place::Items items;
  };
  std::vector<Stretch> parts;

  explicit Exact(const Problem& whole) {
    for (const std::vector<int>& members : tide::place::split(whole)) {
      Problem part = tide::place::part_of(whole, members);
      tide::place::Items items(part);
      parts.push_back({members, std::move(part), std::move(items)});
    }
  }

  Part part(size_t i) const {
    const Stretch& s = parts.at(i);
    return {s.members, tide::place::load_bound(s.problem), s.items.unit, s.items.exact};
  }

  std::vector<int> order(size_t i, const std::string& key, uint64_t seed) const {
    return tide::place::ranking(parts.at(i).problem, key_of(key), seed);
  }

  tide::place::Fitted fits(size_t i, const std::vector<int>& order, bool leaps, Bytes capacity, int64_t work,
                           const Named& switches, nb::object stop) const {
    const Stretch& part = parts.at(i);
    std::vector<char> seen(part.problem.buffers.size());
    for (int b : order)
      if (b < 0 || b >= static_cast<int>(seen.size()) || seen[b]++)
        throw std::invalid_argument("not an order of the part");
    if (order.size() != seen.size()) throw std::invalid_argument("not an order of the part");
    // An interrupt is the caller's here: nothing would be left to end with.
    const tide::place::Stop ask = [&] {
      const nb::gil_scoped_acquire locked;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      return !stop.is_none() && nb::cast<bool>(stop());
    };
    const tide::place::Pruning on = with(tide::place::Pruning(), switches);
    return unlocked([&] { return tide::place::fits(part.problem, part.items, order, leaps, on, capacity, work, ask); });
  }
};

using RuleRows = std::vector<std::pair<std::string, bool>>;

void bind_packing(nb::module_& m) {
  using P = tide::place::Packing;
  record(m, "Packing", "Where quick engines put buffers.", Field{"offsets", &P::offsets, "Bytes, by buffer."},
         Field{"height", &P::height, "Bytes that all of it takes."},
         Field{"bound", &P::bound, "Bytes of the load bound."},
         Field{"rule", &P::rule, "Index of the rule that decided the height; -1 if there was nothing to place."},
         Field{"stretches", &P::stretches, "Stretches of time that no buffer crosses."},
         Field{"pairs", &P::pairs, "Pairs of pieces that are there at the same time."},
         Field{"passes", &P::passes, "Passes over all buffers, or over those of a stretch."},
         Field{"work", &P::work, "Work of the passes, in nanoseconds or so."});
  record(m, "Part", "A stretch of time that no buffer crosses.",
         Field{"members", &Part::members, "Indices of its buffers."},
         Field{"bound", &Part::bound, "Bytes of its load bound."},
         Field{"unit", &Part::unit, "Bytes that every height is a multiple of."},
         Field{"proves", &Part::proves, "Whether the search's no is a proof."});
  using F = tide::place::Fitted;
  record(m, "Fitted", "The answer of an exact search for places.",
         Field{"fits", &F::fit, "Whether the buffers fit; None: not known."},
         Field{"offsets", &F::offsets, "Bytes, by buffer, where the buffers fit."},
         Field{"most", &F::most, "The most buffers placed at once."},
         Field{"nodes", &F::nodes, "Nodes of the search tree."},
         Field{"work", &F::work, "Units of work that it took."});
}

}  // namespace

void place(nb::module_& m) {
  bind_packing(m);
  nb::class_<Problem>(
      m, "Buffers",
      "Buffers to place; `pieces` are (buffer, start, end, low, size), by buffer; `pairs` are (lower, upper, "
      "distance).")
      .def(
          "__init__",
          [](Problem* self, const std::vector<Bytes>& sizes, const std::vector<Bytes>& alignments,
             const std::vector<Bytes>& fixed, const std::vector<PieceRow>& pieces,
             const std::vector<std::tuple<int, int, Bytes>>& pairs, const std::vector<std::pair<int, int>>& apart) {
            new (self) Problem(make_problem(sizes, alignments, fixed, pieces, pairs, apart));
          },
          "sizes"_a, "alignments"_a, "fixed"_a, "pieces"_a, "pairs"_a, "apart"_a)
      .def("load_bound", &tide::place::load_bound)
      .def("clash", &tide::place::clash)
      .def("split", &tide::place::split)
      .def("at_peak", &at_peak,
           "What is there at the first step of most load, as (buffer, low, size), by buffer; nothing of no buffers.")
      .def("fixed_at", &fixed_at, "places"_a, "The problem with some buffers fixed, given as (buffer, offset).")
      .def("height", &tide::place::height_of, "offsets"_a, "Bytes that a placement takes.")
      .def(
          "order", [](const Problem& p, const std::string& key) { return tide::place::Orders(p).by(key_of(key)); },
          "key"_a)
      .def(
          "place",
          [](const Problem& p, const std::vector<int>& order, bool best_fit, Bytes ceiling,
             const std::string& kernel) -> std::optional<std::vector<Bytes>> {
            using tide::place::Kernel;
            tide::place::Placer placer(p, kernel == "lists"  ? Kernel::kLists
                                          : kernel == "tree" ? Kernel::kTree
                                                             : Kernel::kChoose);
            std::vector<Bytes> offsets;
            if (!placer.place(order, best_fit, ceiling, offsets)) return std::nullopt;
            return offsets;
          },
          "order"_a, "best_fit"_a, "ceiling"_a = -1, "kernel"_a = "")
      .def(
          "portfolio",
          [](const Problem& p, const RuleRows& rules, int64_t work) {
            return tide::place::portfolio(p, rules_of(rules), work);
          },
          "rules"_a, "work"_a)
      .def(
          "squeaky",
          [](const Problem& p, const RuleRows& rules, int rounds, int64_t work) {
            return tide::place::squeaky(p, rules_of(rules), {rounds, work});
          },
          "rules"_a, "rounds"_a, "work"_a)
      .def(
          "sweep",
          [](const Problem& p, const RuleRows& rules, int rounds, int64_t window_work, int64_t work,
             const std::vector<int>& segments, bool recall) {
            return tide::place::sweep(p, rules_of(rules), {{rounds, window_work}, work, segments, recall});
          },
          "rules"_a, "rounds"_a, "window_work"_a, "work"_a, "segments"_a, "recall"_a = true);
  nb::class_<Exact>(m, "Exact",
                    "Whether buffers fit under a height, by search, for each stretch that no buffer crosses.")
      .def(nb::init<const Problem&>(), "problem"_a)
      .def("__len__", [](const Exact& e) { return e.parts.size(); })
      .def("part", &Exact::part, "part"_a, "One of the stretches.")
      .def("order", &Exact::order, "part"_a, "key"_a, "seed"_a,
           "A stretch's buffers by a key, or with a seed near that.")
      .def("fits", &Exact::fits, "part"_a, "order"_a, "leaps"_a, "capacity"_a, "work"_a, "switches"_a,
           "stop"_a = nb::none(), "Whether a stretch fits under `capacity` bytes; `stop` is asked now and then.");
}

}  // namespace bind
