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
  std::vector<LoopRead> reads;    // of what the loop makes or is handed
  std::vector<int> makes;         // such tensors too
  std::vector<LoopRead> outside;  // of inputs of the loop, which lie whole outside of it and die there
};

struct LoopTensor {
  int over;           // the tensor whose memory it takes over, position by position; -1: none
  bool whole;         // it leaves the loop, and is there in full
  int64_t bytes = 0;  // of a position
};

struct LoopPlay {
  std::vector<int64_t> slots;  // of each tensor: positions of its ring, 0 if it is whole or over another
  std::vector<int64_t> made;   // of each tensor: positions made in all
  // Of each input and each tensor: by how many bytes the tensor, its positions one behind the other, has to begin below
  // the input so that no byte of that is written over before it is read for the last time; and how many bytes of the
  // input are done with before the tensor's first position is written.
  std::vector<std::vector<int64_t>> behind, begun;
  // Of each tensor with a ring of its own those others whose rings have something at some time at which it has, too.
  std::vector<std::vector<int>> beside;
};

// Plays a loop. `ops` are in an order in which each comes after those it reads from; the first `handed` of them hand
// inputs over. The last one drives. `inputs`: bytes of a position of each input that dies in the loop.
LoopPlay play_loop(const std::vector<LoopOp>& ops, const std::vector<LoopTensor>& tensors,
                   const std::vector<int64_t>& inputs = {}, int handed = 0);

}  // namespace tide
