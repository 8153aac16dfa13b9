// Random topological orders, and what their peaks are: how rare a good order is.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "base/model.h"

namespace tide {

struct Sample {
  std::map<Bytes, int64_t> peaks;  // how many orders have each peak
  int64_t orders = 0;              // all of them
};

// Draws orders: each step runs one of the ready ops, all equally likely. That is not the uniform distribution over
// topological orders, which nobody knows how to draw from quickly. `report` is told now and then how many orders are
// drawn; the drawing ends early if it returns true. The same seed gives the same orders on every machine.
Sample sample(const Model& model, int64_t orders, uint64_t seed, const std::function<bool(int64_t)>& report);

}  // namespace tide
