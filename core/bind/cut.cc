// Python bindings of the search for regions that are cut. No logic.
#include <nanobind/stl/array.h>

#include <array>

#include "bind/record.h"
#include "bind/search.h"
#include "cut/path.h"

TIDE_NAMED(tide::Pace, "'pull', 'push', 'late', 'pull again', 'late again'", "pull", "push", "late", "pull again",
           "late again")

using tide::Bytes;

namespace bind {

namespace {

using namespace nb::literals;

using IndexRow = std::tuple<int, int64_t, int64_t, int64_t, int64_t>;  // axis, num, den, lo, hi
// size, aligned, grain, reduced, workspace, padded row, padded beside, weights, stretch
using AxisRow = std::tuple<int64_t, int64_t, int64_t, bool, std::vector<std::pair<int64_t, Bytes>>, Bytes, bool,
                           std::vector<std::pair<int64_t, int64_t>>, int64_t>;
using ReadRow = std::tuple<int, std::vector<IndexRow>, bool, bool>;  // tensor, dims, may overwrite, first
using MadeRow = std::pair<int, std::vector<int>>;                    // tensor, axes
using OpRow = std::tuple<std::vector<AxisRow>, std::vector<ReadRow>, std::vector<MadeRow>, bool, Bytes,
                         std::vector<int>, std::vector<std::pair<int, Bytes>>, int64_t>;
using GlueRow = std::pair<int64_t, int64_t>;  // fixed, per mebibyte
using TensorRow = std::tuple<Bytes, std::vector<int64_t>, int, std::vector<int>, bool, int, std::vector<int>>;
using StorageRow = std::tuple<Bytes, int, int>;  // size, first, last

tide::CutModel make(const std::vector<OpRow>& ops, const std::vector<TensorRow>& tensors,
                    const std::vector<StorageRow>& storages, const std::vector<Bytes>& footprint,
                    const std::vector<Bytes>& before, bool sums_in_place, int most_joined,
                    const std::optional<std::array<GlueRow, 3>>& glue, const std::optional<GlueRow>& transfer) {
  tide::CutModel model;
  for (const auto& [axes, reads, made, view, workspace, touched, overwrites, weight] : ops) {
    tide::CutOp op{{}, {}, {}, view, workspace, touched, overwrites, weight};
    for (const auto& [size, aligned, grain, reduced, workspace, padded_row, padded_beside, weights, stretch] : axes)
      op.axes.push_back({size, aligned, grain, reduced, workspace, padded_row, padded_beside, stretch, weights});
    for (const auto& [tensor, dims, may_overwrite, first] : reads) {
      tide::CutRead read{tensor, {}, may_overwrite, first};
      for (const auto& [axis, num, den, lo, hi] : dims) read.dims.push_back({axis, num, den, lo, hi});
      op.reads.push_back(std::move(read));
    }
    for (const auto& [tensor, along] : made) op.made.push_back({tensor, along});
    model.ops.push_back(std::move(op));
  }
  for (const auto& [size, shape, producer, readers, output, storage, handed] : tensors)
    model.tensors.push_back({size, shape, producer, readers, output, storage, handed});
  for (const auto& [size, first, last] : storages) model.storages.push_back({size, first, last});
  model.footprint = footprint;
  model.before = before;
  model.sums_in_place = sums_in_place;
  model.most_joined = most_joined;
  model.weighed = glue.has_value();
  if (glue) {
    const auto weight = [](const GlueRow& row) { return tide::GlueWeight{row.first, row.second}; };
    model.slice = weight((*glue)[0]);
    model.join = weight((*glue)[1]);
    model.merge = weight((*glue)[2]);
  }
  model.transfers = transfer.has_value();
  if (transfer) model.transfer = {transfer->first, transfer->second};
  return model;
}

}  // namespace

void cut(nb::module_& m) {
  nb::class_<tide::CutModel>(m, "CutModel", "A graph in one order, and along which axes its ops can be cut.")
      .def(
          "__init__",
          [](tide::CutModel* self, const std::vector<OpRow>& ops, const std::vector<TensorRow>& tensors,
             const std::vector<StorageRow>& storages, const std::vector<Bytes>& footprint,
             const std::vector<Bytes>& before, bool sums_in_place, int most_joined,
             const std::optional<std::array<GlueRow, 3>>& glue, const std::optional<GlueRow>& transfer, bool again) {
            new (self) tide::CutModel(
                make(ops, tensors, storages, footprint, before, sums_in_place, most_joined, glue, transfer));
            self->again = again;
          },
          "ops"_a, "tensors"_a, "storages"_a, "footprint"_a, "before"_a, "sums_in_place"_a, "most_joined"_a = 0,
          "glue"_a = nb::none(), "transfer"_a = nb::none(), "again"_a = false)
      .def("limit_tensors", &tide::CutModel::limit_tensors, "most"_a,
           "Makes tensors of more bytes count for more than any footprint; those of the caller may have any size.");
  using R = tide::PathRegion;
  record(m, "PathRegion", "Ops at positions [begin, end) that are cut together.",
         Field{"begin", &R::begin, "First position."}, Field{"end", &R::end, "Position behind the last."},
         Field{"axis", &R::axis, "Axis of the last op."},
         Field{"pace", &R::pace,
               "What stripes are equal parts of, and how far the other ops run: pull, push or late; again."},
         Field{"stripes", &R::stripes, "How many parts."}, Field{"peak", &R::peak, "Bytes of the highest step in it."},
         Field{"ops", &R::ops, "Ops that run: parts, slices, joins and whole ones."},
         Field{"weight", &R::weight, "What these weigh."});
  using P = tide::PathResult;
  record(m, "PathResult", "The best way through an order.", Field{"peak", &P::peak, "Bytes of the highest step."},
         Field{"ops", &P::ops, "Ops that run."}, Field{"weight", &P::weight, "What these weigh."},
         Field{"order", &P::order, "The ops in the order of the way, in positions of the model's."},
         Field{"regions", &P::regions, "What is cut, in order, by positions in that order."},
         Field{"handed", &P::handed, "Tensors that they leave in pieces, which nobody puts together."},
         Field{"evaluated", &P::evaluated, "Regions that were tried."},
         Field{"given_up", &P::given_up, "Of these those whose footprint is above the limit by some of their steps."},
         Field{"complete", &P::complete, "Whether it was not stopped."});
  m.def(
      "region_cost",
      [](const tide::CutModel& model, int begin, int end, int seed, int axis, int stripes, tide::Pace pace,
         Bytes limit) -> std::optional<std::tuple<Bytes, int, std::vector<int>, int64_t>> {
        tide::Regions regions(model);
        if (!regions.grow(begin, end, seed, axis)) return std::nullopt;
        const auto cost = regions.cost(stripes, pace, limit);
        return std::tuple{cost.peak, cost.ops, regions.axes(), cost.weight};
      },
      "model"_a, "begin"_a, "end"_a, "seed"_a, "axis"_a, "stripes"_a, "pace"_a = tide::Pace::kPull,
      "limit"_a = tide::kNoLimit,
      "Bytes of one region's highest step, its ops, the axis of each position (-1: whole), what they weigh.\n\n"
      "Above a limit it may be given up: no ops, and bytes above the limit that it takes at the least.");
  m.def(
      "best_path",
      [](const tide::CutModel& model, int longest, int most_stripes, Bytes at_least, int most_ops, nb::object stop,
         int64_t most_weight, const std::vector<std::vector<int>>& before) {
        tide::PathOptions options{longest, most_stripes, at_least, most_ops, most_weight, 0, reporter<int64_t>(stop)};
        return unlocked([&] { return tide::best_path(model, options, before); });
      },
      "model"_a, "longest"_a, "most_stripes"_a, "at_least"_a, "most_ops"_a, "stop"_a = nb::none(), "most_weight"_a = 0,
      "before"_a = std::vector<std::vector<int>>(),
      "The way through the order with the lowest peak, then the least weight, over intervals cut in equal stripes.\n\n"
      "If it is said which ops must run `before` each, other orders are looked at, too.");
  m.def(
      "paths_within",
      [](const tide::CutModel& model, int longest, int most_stripes, const std::vector<Bytes>& limits, nb::object stop,
         int64_t above) {
        tide::PathOptions options{longest, most_stripes, 0, 0, 0, above, reporter<int64_t>(stop)};
        return unlocked([&] { return tide::paths_within(model, options, limits); });
      },
      "model"_a, "longest"_a, "most_stripes"_a, "limits"_a, "stop"_a = nb::none(), "above"_a = 0,
      "Ways of the least weight under each of some limits on the peak, those there are, in the model's own order.\n\n"
      "With `above`, ops may run whole above a limit, too, and weigh so much more.");
  m.def(
      "path_front",
      [](const tide::CutModel& model, int longest, int most_stripes, nb::object stop) {
        tide::PathOptions options{longest, most_stripes, 0, 0, 0, 0, reporter<int64_t>(stop)};
        return unlocked([&] { return tide::path_front(model, options); });
      },
      "model"_a, "longest"_a, "most_stripes"_a, "stop"_a = nb::none(),
      "Ways of ever lower peaks and ever more weight, the whole graph first.");
}

}  // namespace bind
