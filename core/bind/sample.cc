// Python bindings of the sampler.
#include <nanobind/nanobind.h>

#include "papers/sample.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

nb::dict sample(const tide::Model& model, int64_t orders, uint64_t seed, nb::object report) {
  const auto tell = [&](int64_t drawn) {
    nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) {
      PyErr_Clear();  // an interrupt: what is drawn so far is the result
      return true;
    }
    return !report.is_none() && nb::cast<bool>(report(drawn));
  };
  tide::Sample drawn;
  {
    nb::gil_scoped_release unlocked;
    drawn = tide::sample(model, orders, seed, tell);
  }
  nb::list peaks;
  for (const auto& [bytes, count] : drawn.peaks) peaks.append(nb::make_tuple(bytes, count));
  nb::dict out;
  out["orders"] = drawn.orders;
  out["peaks"] = peaks;
  return out;
}

}  // namespace

void bind_sample(nb::module_& m) { m.def("sample", &sample, "model"_a, "orders"_a, "seed"_a, "report"_a.none()); }
