// Python bindings of the search for least traffic.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#include "spill/search.h"

namespace nb = nanobind;
using namespace nb::literals;
using tide::Bytes;

namespace {

// Per storage: room, bytes, cost, touchers, writers, (copied, written_free, stays, overwritable).
using StorageRow = std::tuple<Bytes, Bytes, Bytes, std::vector<int>, std::vector<int>, std::vector<bool>>;

tide::SpillModel make(const std::vector<std::vector<int>>& preds, const std::vector<StorageRow>& storages,
                      const std::vector<Bytes>& workspace,
                      const std::vector<std::vector<std::pair<int, Bytes>>>& overwrites, Bytes capacity,
                      bool write_once, int gate, const std::vector<std::pair<std::vector<int>, Bytes>>& segments) {
  tide::SpillModel model;
  model.n = static_cast<int>(preds.size());
  model.preds = preds;
  for (const auto& [room, bytes, cost, touchers, writers, flags] : storages)
    model.storages.push_back({room, bytes, cost, touchers, writers, flags[0], flags[1], flags[2], flags[3]});
  model.workspace = workspace;
  for (const auto& row : overwrites) {
    std::vector<tide::Overwrite> list;
    for (const auto& [storage, saving] : row) list.push_back({storage, saving});
    model.overwrites.push_back(std::move(list));
  }
  model.capacity = capacity;
  model.write_once = write_once;
  model.gate = gate;
  model.segments = segments;
  return model;
}

nb::dict search(const tide::SpillModel& model, int width, int64_t state_limit, size_t memory_bytes, Bytes upper,
                uint64_t seed, int jitter, double seconds, bool safe_moves, bool dominance) {
  tide::SpillOptions options;
  options.width = width;
  options.state_limit = state_limit;
  options.memory_bytes = memory_bytes;
  options.upper = upper;
  options.seed = seed;
  options.jitter = jitter;
  options.safe_moves = safe_moves;
  options.dominance = dominance;
  bool interrupt = false;
  const auto began = std::chrono::steady_clock::now();
  options.stop = [&] {
    nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) {
      PyErr_Clear();
      interrupt = true;
    }
    return interrupt || std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() > seconds;
  };
  tide::SpillResult r;
  {
    nb::gil_scoped_release unlocked;
    r = tide::spill_search(model, options);
  }
  nb::dict out;
  out["found"] = r.found;
  out["cost"] = r.cost;
  out["bound"] = r.bound;
  out["proved"] = r.proved;
  out["order"] = r.order;
  out["leaves"] = r.leaves;
  out["states"] = r.states;
  out["stopped"] = r.interrupted;
  out["interrupt"] = interrupt;
  return out;
}

}  // namespace

void bind_spill(nb::module_& m) {
  nb::class_<tide::SpillModel>(m, "SpillModel")
      .def(
          "__init__",
          [](tide::SpillModel* self, const std::vector<std::vector<int>>& preds,
             const std::vector<StorageRow>& storages, const std::vector<Bytes>& workspace,
             const std::vector<std::vector<std::pair<int, Bytes>>>& overwrites, Bytes capacity, bool write_once,
             const std::vector<std::pair<std::vector<int>, Bytes>>& segments, int gate) {
            new (self)
                tide::SpillModel(make(preds, storages, workspace, overwrites, capacity, write_once, gate, segments));
          },
          "preds"_a, "storages"_a, "workspace"_a, "overwrites"_a, "capacity"_a, "write_once"_a, "segments"_a,
          "gate"_a = -1);
  m.def("spill", &search, "model"_a, "width"_a, "state_limit"_a, "memory_bytes"_a, "upper"_a, "seed"_a, "jitter"_a,
        "seconds"_a, "safe_moves"_a = true, "dominance"_a = true);
}
