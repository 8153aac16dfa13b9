// Other orders of the same peak: nearer to the model's own order, or drawn at random.
#pragma once

#include <functional>

#include "order/problem.h"

namespace tide {

// Puts stretches of `order` back into the model's own order (ascending op numbers) wherever no footprint then
// exceeds `budget`: whole stretches first, then halves and thirds of them.
std::vector<int> restore_own_order(const Model& model, const std::vector<int>& order, Bytes budget);

// An order of peak at most `budget` found by a beam, or an empty one. Different seeds break ties differently.
std::vector<int> draw(const Model& model, Bytes budget, int width, uint64_t seed, bool reversed,
                      const std::function<bool()>& stop);

}  // namespace tide
