// Python bindings of placing: plain lists in, plain lists and dictionaries out.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "place/bound.h"
#include "place/exact.h"
#include "place/pack.h"

namespace nb = nanobind;
using namespace nb::literals;
using tide::Bytes;
using tide::place::Problem;

namespace {

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

tide::place::Pruning pruning_of(const nb::dict& switches) {
  tide::place::Pruning on;
  for (auto [key, value] : switches) {
    const auto name = nb::cast<std::string>(key);
    bool* const rule = on.named(name);
    if (rule == nullptr) throw nb::key_error(name.c_str());
    *rule = nb::cast<bool>(value);
  }
  return on;
}

// The stretches of a problem that no buffer crosses, as the exact search takes them.
struct Exact {
  struct Part {
    std::vector<int> members;
    Problem problem;
    tide::place::Items items;
  };
  std::vector<Part> parts;

  explicit Exact(const Problem& whole) {
    for (const std::vector<int>& members : tide::place::split(whole)) {
      Problem part = tide::place::part_of(whole, members);
      tide::place::Items items(part);
      parts.push_back({members, std::move(part), std::move(items)});
    }
  }

  nb::dict part(size_t i) const {
    nb::dict out;
    out["members"] = parts.at(i).members;
    out["bound"] = tide::place::load_bound(parts.at(i).problem);
    out["unit"] = parts.at(i).items.unit;
    out["proves"] = parts.at(i).items.exact;
    return out;
  }

  std::vector<int> order(size_t i, const std::string& key, uint64_t seed) const {
    return tide::place::ranking(parts.at(i).problem, key_of(key), seed);
  }

  nb::tuple fits(size_t i, const std::vector<int>& order, bool leaps, Bytes capacity, int64_t work,
                 const nb::dict& switches, nb::object stop) const {
    std::vector<char> seen(parts.at(i).problem.buffers.size());
    for (int b : order)
      if (b < 0 || b >= static_cast<int>(seen.size()) || seen[b]++)
        throw std::invalid_argument("not an order of the part");
    if (order.size() != seen.size()) throw std::invalid_argument("not an order of the part");
    const tide::place::Stop ask = [&] {
      nb::gil_scoped_acquire locked;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      return !stop.is_none() && nb::cast<bool>(stop());
    };
    const tide::place::Pruning on = pruning_of(switches);
    tide::place::Fitted found;
    {
      nb::gil_scoped_release unlocked;
      found = tide::place::fits(parts.at(i).problem, parts.at(i).items, order, leaps, on, capacity, work, ask);
    }
    using tide::place::Fit;
    nb::object fit = nb::none();
    if (found.fit != Fit::kUnknown) fit = nb::bool_(found.fit == Fit::kFits);
    return nb::make_tuple(fit, found.offsets, found.most, found.nodes, found.work);
  }
};

nb::dict packing_of(const tide::place::Packing& p) {
  nb::dict out;
  out["offsets"] = p.offsets;
  out["height"] = p.height;
  out["bound"] = p.bound;
  out["rule"] = p.rule;
  out["stretches"] = p.stretches;
  out["pairs"] = p.pairs;
  out["passes"] = p.passes;
  out["work"] = p.work;
  return out;
}

}  // namespace

void bind_place(nb::module_& m) {
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
          [](const Problem& p, const std::vector<std::pair<std::string, bool>>& rules, int64_t work) {
            return packing_of(tide::place::portfolio(p, rules_of(rules), work));
          },
          "rules"_a, "work"_a)
      .def(
          "squeaky",
          [](const Problem& p, const std::vector<std::pair<std::string, bool>>& rules, int rounds, int64_t work) {
            return packing_of(tide::place::squeaky(p, rules_of(rules), {rounds, work}));
          },
          "rules"_a, "rounds"_a, "work"_a)
      .def(
          "sweep",
          [](const Problem& p, const std::vector<std::pair<std::string, bool>>& rules, int rounds, int64_t window_work,
             int64_t work, const std::vector<int>& segments) {
            return packing_of(tide::place::sweep(p, rules_of(rules), {{rounds, window_work}, work, segments}));
          },
          "rules"_a, "rounds"_a, "window_work"_a, "work"_a, "segments"_a);
  nb::class_<Exact>(m, "Exact",
                    "Whether buffers fit under a height, by search, for each stretch that no buffer crosses.")
      .def(nb::init<const Problem&>(), "problem"_a)
      .def("__len__", [](const Exact& e) { return e.parts.size(); })
      .def("part", &Exact::part, "part"_a,
           "A stretch: its members, load bound, unit of all heights, whether no is proved.")
      .def("order", &Exact::order, "part"_a, "key"_a, "seed"_a,
           "A stretch's buffers by a key, or with a seed near that.")
      .def(
          "fits", &Exact::fits, "part"_a, "order"_a, "leaps"_a, "capacity"_a, "work"_a, "switches"_a,
          "stop"_a = nb::none(),
          "Whether a stretch fits (None: not known), its offsets if so, the most buffers placed at once, nodes, work.");
}
