// Python bindings of the search for least traffic.
#include <chrono>

#include "bind/record.h"
#include "bind/search.h"
#include "spill/search.h"

using tide::Bytes;

TIDE_NAMED(tide::Ended, "'complete', 'time', 'memory', 'states', 'interrupt'", "complete", "time", "memory", "states",
           "interrupt")

namespace bind {

namespace {

using namespace nb::literals;

// Per storage: room, bytes, cost, users, writers, (copied, written_free, stays, overwritable).
using StorageRow = std::tuple<Bytes, Bytes, Bytes, std::vector<int>, std::vector<int>, std::vector<bool>>;

tide::SpillModel make(const std::vector<std::vector<int>>& preds, const std::vector<StorageRow>& storages,
                      const std::vector<Bytes>& workspace,
                      const std::vector<std::vector<std::pair<int, Bytes>>>& overwrites, Bytes capacity,
                      bool write_once, int gate, const std::vector<std::pair<std::vector<int>, Bytes>>& segments) {
  tide::SpillModel model;
  model.n = static_cast<int>(preds.size());
  model.preds = preds;
  for (const auto& [room, bytes, cost, users, writers, flags] : storages)
    model.storages.push_back({room, bytes, cost, users, writers, flags[0], flags[1], flags[2], flags[3]});
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

tide::SpillResult search(const tide::SpillModel& model, int width, int64_t state_limit, size_t memory_bytes,
                         Bytes upper, uint64_t seed, int jitter, double seconds, bool safe_moves, bool dominance) {
  tide::SpillOptions options;
  options.width = width;
  options.state_limit = state_limit;
  options.memory_bytes = memory_bytes;
  options.upper = upper;
  options.seed = seed;
  options.jitter = jitter;
  options.safe_moves = safe_moves;
  options.dominance = dominance;
  const auto began = std::chrono::steady_clock::now();
  options.stop = [&] {
    const nb::gil_scoped_acquire locked;
    if (interrupted()) return tide::Ended::kInterrupt;
    const double now = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return now > seconds ? tide::Ended::kTime : tide::Ended::kComplete;
  };
  return unlocked([&] { return tide::spill_search(model, options); });
}

}  // namespace

void spill(nb::module_& m) {
  nb::class_<tide::SpillModel>(m, "SpillModel", "Ops and the storages that may leave a small fast memory.")
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
  using R = tide::SpillResult;
  record(m, "SpillResult", "What the search for least traffic found and proved.",
         Field{"found", &R::found, "Whether there is an answer."},
         Field{"cost", &R::cost, "Bytes of traffic of the best answer."},
         Field{"bound", &R::bound, "Bytes that no answer costs less than (best-first search)."},
         Field{"proved", &R::proved, "Whether nothing is better, or nothing there at all."},
         Field{"order", &R::order, "The order, as positions of ops."},
         Field{"leaves", &R::leaves, "(step, storage): what leaves before that step's op."},
         Field{"states", &R::states, "States that the search made."},
         Field{"ended", &R::ended, "How the search ended."});
  m.def("spill", &search, "model"_a, "width"_a, "state_limit"_a, "memory_bytes"_a, "upper"_a, "seed"_a, "jitter"_a,
        "seconds"_a, "safe_moves"_a = true, "dominance"_a = true,
        "Least traffic over all orders: best-first without a width, else by beams.");
}

}  // namespace bind
