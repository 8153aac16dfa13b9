// Python bindings of SERENITY.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "papers/serenity.h"

namespace nb = nanobind;
using namespace nb::literals;
using tide::Bytes;

namespace {

nb::dict schedule(const tide::Model& model, const std::vector<tide::serenity::Nodes>& segments, bool soft_budget,
                  int64_t step_limit, double seconds, size_t memory_bytes, nb::object report) {
  tide::serenity::Options options;
  options.soft_budget = soft_budget;
  options.step_limit = step_limit;
  options.seconds = seconds;
  options.memory_bytes = memory_bytes;
  options.report = [&](Bytes best, double now) {
    nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) {
      PyErr_Clear();  // an interrupt: the search ends with the best it has
      return true;
    }
    if (report.is_none()) return false;
    try {
      return nb::cast<bool>(report(best, now));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_KeyboardInterrupt)) throw;
      return true;
    }
  };
  tide::serenity::Result r;
  {
    nb::gil_scoped_release unlocked;
    r = tide::serenity::schedule(model, segments, options);
  }
  nb::list attempts;
  for (const tide::serenity::Attempt& a : r.attempts)
    attempts.append(nb::make_tuple(a.segment, a.budget, a.step_limit, a.flag, a.states, a.moves));
  nb::dict out;
  out["order"] = r.order;
  out["peak"] = r.peak;
  out["kahn_peak"] = r.kahn_peak;
  out["segment_peaks"] = r.segment_peaks;
  out["attempts"] = attempts;
  out["solved"] = r.solved;
  out["states"] = r.states;
  out["moves"] = r.moves;
  out["widest"] = r.widest;
  out["stopped"] = r.stopped;
  out["memory_bytes"] = r.memory_bytes;
  return out;
}

}  // namespace

void bind_serenity(nb::module_& m) {
  m.def("serenity", &schedule, "model"_a, "segments"_a, "soft_budget"_a, "step_limit"_a, "seconds"_a, "memory_bytes"_a,
        "report"_a.none());
}
