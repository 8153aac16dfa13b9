// Python binding of the maximum flow. No logic.
#include "base/flow.h"

#include <algorithm>
#include <stdexcept>

#include "bind/record.h"
#include "bind/search.h"

namespace bind {

namespace {

using namespace nb::literals;

using ArcRow = std::tuple<int, int, int64_t>;  // from, to, capacity

int64_t maximum_flow(int nodes, const std::vector<ArcRow>& arcs) {
  for (const auto& [from, to, capacity] : arcs)
    if (from < 0 || from >= nodes || to < 0 || to >= nodes || capacity < 0)
      throw std::invalid_argument("an arc is none of this network");
  return unlocked([&] {
    tide::FlowNetwork network(nodes);
    for (const auto& [from, to, capacity] : arcs)
      network.add_arc(from, to, std::min(capacity, tide::FlowNetwork::kInfinite));
    return network.augment(0, 1);
  });
}

}  // namespace

void flow(nb::module_& m) {
  m.def("maximum_flow", &maximum_flow, "nodes"_a, "arcs"_a,
        "What flows at most from node 0 to node 1 along arcs (from, to, capacity).");
}

}  // namespace bind
