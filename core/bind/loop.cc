// Python bindings of loops over rows. No logic.
#include "cut/loop.h"

#include "bind/record.h"

namespace bind {

namespace {

using namespace nb::literals;

using IndexRow = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;  // num, den, lo, hi, size
using ReadRow = std::tuple<int, IndexRow, IndexRow>;                       // tensor, row, column
using OpRow = std::tuple<int64_t, int64_t, std::vector<ReadRow>, std::vector<int>, std::vector<ReadRow>>;
using TensorRow = std::tuple<int, bool, int64_t>;  // over, whole, bytes of a position

tide::LoopIndex index(const IndexRow& row) {
  const auto& [num, den, lo, hi, size] = row;
  return {num, den, lo, hi, size};
}

}  // namespace

void loop(nb::module_& m) {
  using P = tide::LoopPlay;
  record(m, "LoopPlay", "What a loop keeps of each tensor.",
         Field{"slots", &P::slots, "Positions of its ring; 0: it is whole, or lies over another."},
         Field{"made", &P::made, "Positions made in all."},
         Field{"behind", &P::behind, "By how many bytes it has to begin below each input."},
         Field{"beside", &P::beside, "Of each with a ring of its own others whose rings have something when it has."},
         Field{"begun", &P::begun, "Bytes of each input that are done with before its first position is written."});
  m.def(
      "play_loop",
      [](const std::vector<OpRow>& ops, const std::vector<TensorRow>& tensors, const std::vector<int64_t>& inputs,
         int handed) {
        std::vector<tide::LoopOp> members;
        for (const auto& [rows, columns, reads, makes, outside] : ops) {
          tide::LoopOp op{rows, columns, {}, makes, {}};
          for (const auto& [tensor, row, column] : reads) op.reads.push_back({tensor, index(row), index(column)});
          for (const auto& [tensor, row, column] : outside) op.outside.push_back({tensor, index(row), index(column)});
          members.push_back(std::move(op));
        }
        std::vector<tide::LoopTensor> kept;
        for (const auto& [over, whole, bytes] : tensors) kept.push_back({over, whole, bytes});
        return tide::play_loop(members, kept, inputs, handed);
      },
      "ops"_a, "tensors"_a, "inputs"_a, "handed"_a = 0,
      "Positions of each tensor that a loop keeps, and how far it lies behind inputs; its last op drives.");
}

}  // namespace bind
