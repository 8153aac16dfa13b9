// Ops that run together, a position (row or pixel) of the last one at a time: how many positions of each tensor
// between them are there at once. What a loop is: lowtide.transform.loops.
#pragma once

#include <cstdint>
#include <vector>

namespace tide {

// Rows [floor((a num + lo) / den), floor((a num + hi) / den) + 1) of a dimension of `size` rows, for row a of an axis.
struct LoopIndex {
  int64_t num = 1, den = 1, lo = 0, hi = 0, size = 1;
};

struct LoopRead {
  int tensor;
  LoopIndex row, column;  // the column's is of one row where there is one axis
};

struct LoopOp {
  int64_t rows, columns;
  std::vector<LoopRead> reads;  // of what the loop makes or is handed
  std::vector<int> makes;       // such tensors too
};

struct LoopTensor {
  int over;    // the tensor whose memory it takes over, position by position; -1: none
  bool whole;  // it leaves the loop, and is there in full
};

struct LoopPlay {
  std::vector<int64_t> slots;  // of each tensor: positions of its ring, 0 if it is whole or over another
  std::vector<int64_t> made;   // of each tensor: positions made in all
};

// Plays a loop. `ops` are in an order in which each comes after those it reads from; what has no reads is handed over.
// The last one drives.
LoopPlay play_loop(const std::vector<LoopOp>& ops, const std::vector<LoopTensor>& tensors);

}  // namespace tide
