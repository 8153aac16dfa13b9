// Python bindings: plain lists in, plain dictionaries out. No logic.
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "order/settle.h"
#include "order/solve.h"
#include "papers/hmcos.h"

namespace nb = nanobind;
using tide::Bytes;

namespace {

tide::Model make_model(const std::vector<std::vector<int>>& preds, const std::vector<Bytes>& sizes,
                       const std::vector<std::vector<int>>& touchers, const std::vector<bool>& at_start,
                       const std::vector<bool>& at_end, const std::vector<Bytes>& workspace,
                       const std::vector<std::vector<std::pair<int, Bytes>>>& overwrites) {
  tide::Model model;
  model.n = static_cast<int>(preds.size());
  model.preds = preds;
  for (size_t s = 0; s < sizes.size(); ++s) model.storages.push_back({sizes[s], touchers[s], at_start[s], at_end[s]});
  model.workspace = workspace;
  model.overwrites.resize(preds.size());
  for (size_t v = 0; v < overwrites.size(); ++v)
    for (const auto& [storage, saving] : overwrites[v]) model.overwrites[v].push_back({storage, saving});
  model.derive();
  return model;
}

void set_switch(tide::Switches& on, const std::string& name, bool value) {
  if (name == "fuse_a")
    on.fusion.a = value;
  else if (name == "fuse_b")
    on.fusion.b = value;
  else if (name == "fuse_c")
    on.fusion.c = value;
  else if (name == "cut")
    on.cut = value;
  else if (name == "beams")
    on.beams = value;
  else if (name == "closure")
    on.search.closure = value;
  else if (name == "safe_moves")
    on.search.safe_moves = value;
  else if (name == "commits")
    on.search.commits = value;
  else if (name == "forward")
    on.forward = value;
  else if (name == "reversed")
    on.reversed = value;
  else if (name == "best_first")
    on.best_first = value;
  else if (name == "nested")
    on.nested = value;
  else if (name == "propagate")
    on.propagate = value;
  else if (name == "symmetry")
    on.symmetry = value;
  else
    throw nb::key_error(name.c_str());
}

nb::dict solve(const tide::Model& model, const std::vector<int>& start, nb::dict switches, double seconds,
               size_t memory_bytes, uint64_t seed, Bytes budget, bool until_decided, bool until_impossible,
               int64_t first_slice, nb::object report) {
  tide::Options options;
  for (auto [key, value] : switches) set_switch(options.switches, nb::cast<std::string>(key), nb::cast<bool>(value));
  options.seconds = seconds;
  options.memory_bytes = memory_bytes;
  options.seed = seed;
  options.budget = budget;
  options.until_decided = until_decided;
  options.until_impossible = until_impossible;
  options.first_slice = first_slice;
  options.report = [&](Bytes best, Bytes bound, double now) {
    nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) {
      PyErr_Clear();  // an interrupt: the search ends with the best it has
      return true;
    }
    if (report.is_none()) return false;
    try {
      return nb::cast<bool>(report(best, bound, now));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_KeyboardInterrupt)) throw;
      return true;
    }
  };
  tide::Result r;
  {
    nb::gil_scoped_release unlocked;
    r = tide::solve(model, start, options);
  }
  nb::dict out;
  out["order"] = r.order;
  out["peak"] = r.peak;
  out["lower_bound"] = r.lower_bound;
  out["proof"] = r.proof == tide::Result::kCut ? "cut" : r.proof == tide::Result::kSearch ? "search" : "none";
  out["cut_op"] = r.cut_op;
  out["cut_bound"] = r.cut_bound;
  out["refuted"] = r.refuted;
  out["direction"] = r.direction;
  out["refuting_states"] = r.refuting_states;
  out["stopped"] = r.stopped;
  out["reduced_ops"] = r.reduced_ops;
  out["states"] = r.states;
  out["beam_states"] = r.beam_states;
  out["cuts"] = r.cuts;
  out["symmetries"] = r.symmetries;
  nb::list trace;
  for (const tide::Result::Point& p : r.trace) trace.append(nb::make_tuple(p.seconds, p.best, p.bound));
  out["trace"] = trace;
  out["memory_bytes"] = r.memory_bytes;
  return out;
}

nb::dict hmcos(const tide::Model& model, const std::vector<int>& rpo, const std::vector<bool>& cell_output,
               const std::map<std::string, bool>& switches, double seconds, size_t memory_bytes, nb::object report) {
  tide::hmcos::Options options;
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
  options.report = [&](Bytes best, double now) {
    nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) {
      PyErr_Clear();  // an interrupt: the search ends with the best it has
      return true;
    }
    return !report.is_none() && nb::cast<bool>(report(best, now));
  };
  tide::hmcos::Result r;
  {
    nb::gil_scoped_release unlocked;
    r = tide::hmcos::schedule(model, rpo, options);
  }
  nb::list iterations;
  for (const tide::hmcos::Iteration& i : r.iterations) {
    nb::dict row;
    row["peak_bytes"] = i.peak;
    row["vertices"] = i.vertices;
    row["groups"] = i.groups;
    row["freed_sequences"] = i.freed;
    row["dissolved_groups"] = i.dissolved;
    row["expanded"] = i.expanded;
    row["states"] = i.states;
    row["pruned"] = i.pruned;
    row["group_searches"] = i.group_searches;
    row["group_expanded"] = i.group_expanded;
    row["group_states"] = i.group_states;
    row["simple_schedules"] = i.simple;
    row["memo_hits"] = i.memo_hits;
    row["seconds"] = i.seconds;
    iterations.append(row);
  }
  nb::dict out;
  out["order"] = r.order;
  out["stopped"] = r.stopped;
  out["peak_bytes"] = r.peak;
  out["start_peak_bytes"] = r.start_peak;
  out["kept_start"] = r.kept_start;
  out["cells"] = r.cells;
  out["borders"] = r.borders;
  out["sequences"] = r.sequence_ops;
  out["groups"] = r.group_sequences;
  out["iterations"] = iterations;
  out["memory_bytes"] = r.memory_bytes;
  return out;
}

nb::dict cut_at(const tide::Model& model, int op) {
  tide::CutBound bound(model);
  const tide::Cut cut = bound.at(op, true);
  nb::list cases;
  for (const tide::CutCase& c : cut.cases) {
    nb::list flow;
    for (const tide::CutArc& arc : c.flow) flow.append(nb::make_tuple(arc.storage, arc.from, arc.to, arc.bytes));
    nb::dict entry;
    entry["storage"] = c.storage;
    entry["value"] = c.value;
    entry["downset"] = c.downset;
    entry["flow"] = flow;
    cases.append(entry);
  }
  nb::dict out;
  out["value"] = cut.value;
  out["cases"] = cases;
  return out;
}

}  // namespace

void bind_place(nb::module_& m);     // bind/place.cc
void bind_serenity(nb::module_& m);  // bind/serenity.cc
void bind_sample(nb::module_& m);    // bind/sample.cc
void bind_spill(nb::module_& m);     // bind/spill.cc

NB_MODULE(_core, m) {
  m.doc() = "lowtide's native core: exact scheduling. Ops and storages are positions; sizes are bytes.";
  nb::class_<tide::Model>(m, "Model")
      .def(
          "__init__",
          [](tide::Model* self, const std::vector<std::vector<int>>& preds, const std::vector<Bytes>& sizes,
             const std::vector<std::vector<int>>& touchers, const std::vector<bool>& at_start,
             const std::vector<bool>& at_end, const std::vector<Bytes>& workspace,
             const std::vector<std::vector<std::pair<int, Bytes>>>& overwrites) {
            new (self) tide::Model(make_model(preds, sizes, touchers, at_start, at_end, workspace, overwrites));
          },
          nb::arg("preds"), nb::arg("sizes"), nb::arg("touchers"), nb::arg("at_start"), nb::arg("at_end"),
          nb::arg("workspace"), nb::arg("overwrites"))
      .def("peak", &tide::peak, nb::arg("order"));
  m.def("solve", &solve, nb::arg("model"), nb::arg("start"), nb::arg("switches"), nb::arg("seconds"),
        nb::arg("memory_bytes"), nb::arg("seed"), nb::arg("budget"), nb::arg("until_decided"),
        nb::arg("until_impossible"), nb::arg("first_slice"), nb::arg("report").none());
  m.def("hmcos", &hmcos, nb::arg("model"), nb::arg("rpo"), nb::arg("cell_output"), nb::arg("switches"),
        nb::arg("seconds"), nb::arg("memory_bytes"), nb::arg("report").none());
  m.def("settle", &tide::settle, nb::arg("model"), nb::arg("order"), nb::arg("budget"));
  m.def(
      "draw",
      [](const tide::Model& model, Bytes budget, int width, uint64_t seed, bool reversed) {
        return tide::draw(model, budget, width, seed, reversed, [] { return false; });
      },
      nb::arg("model"), nb::arg("budget"), nb::arg("width"), nb::arg("seed"), nb::arg("reversed"));
  m.def("cut_at", &cut_at, nb::arg("model"), nb::arg("op"));
  bind_place(m);
  bind_serenity(m);
  bind_sample(m);
  bind_spill(m);
}
