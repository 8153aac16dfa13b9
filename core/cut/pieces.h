// Tensors that are there in pieces, put together by nobody, at some place of an order.
#pragma once

#include <compare>
#include <vector>

namespace tide {

// A tensor in pieces along a dimension.
struct InPieces {
  int tensor, dim;
  auto operator<=>(const InPieces&) const = default;
};

// Each tensor once, in rising order.
using Pieces = std::vector<InPieces>;

}  // namespace tide
