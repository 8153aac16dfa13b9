// Python bindings of loops over rows. No logic.
#include "cut/loop.h"

#include "bind/record.h"

namespace bind {

namespace {

using namespace nb::literals;

using IndexRow = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;  // num, den, lo, hi, size
using ReadRow = std::tuple<int, IndexRow, IndexRow>;                       // tensor, row, column
using OpRow = std::tuple<int64_t, int64_t, std::vector<ReadRow>, std::vector<int>>;
using TensorRow = std::pair<int, bool>;  // over, whole

tide::LoopIndex index(const IndexRow& row) {
  const auto& [num, den, lo, hi, size] = row;
  return {num, den, lo, hi, size};
}

}  // namespace

void loop(nb::module_& m) {
  using P = tide::LoopPlay;
  record(m, "LoopPlay", "What a loop keeps of each tensor.",
         Field{"slots", &P::slots, "Positions of its ring; 0: it is whole, or lies over another."},
         Field{"made", &P::made, "Positions made in all."});
  m.def(
      "play_loop",
      [](const std::vector<OpRow>& ops, const std::vector<TensorRow>& tensors) {
        std::vector<tide::LoopOp> members;
        for (const auto& [rows, columns, reads, makes] : ops) {
          tide::LoopOp op{rows, columns, {}, makes};
          for (const auto& [tensor, row, column] : reads) op.reads.push_back({tensor, index(row), index(column)});
          members.push_back(std::move(op));
        }
        std::vector<tide::LoopTensor> kept;
        for (const auto& [over, whole] : tensors) kept.push_back({over, whole});
        return tide::play_loop(members, kept);
      },
      "ops"_a, "tensors"_a, "Positions of each tensor that a loop keeps; its last op drives.");
}

}  // namespace bind
