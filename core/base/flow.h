// Maximum flow on a small directed network with 64-bit capacities (Dinic's algorithm).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tide {

class FlowNetwork {
 public:
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

  explicit FlowNetwork(int nodes = 0) : head_(nodes, -1) {}

  int add_node() {
    head_.push_back(-1);
    return static_cast<int>(head_.size()) - 1;
  }
  // Returns the arc's number; its reverse has the next one.
  int add_arc(int from, int to, int64_t capacity);
  // Pushes what it can from source to sink; adds to the flow already there. Stops at `enough`.
  int64_t augment(int source, int sink, int64_t enough = kInfinite);
  // Flow on an arc.
  int64_t flow(int arc) const { return arcs_[arc ^ 1].residual; }
  int nodes() const { return static_cast<int>(head_.size()); }
  // Nodes that the source still reaches: the least minimum cut's source side.
  std::vector<char> source_side(int source) const;

 private:
  struct Arc {
    int to, next;
    int64_t residual;
  };
  bool levels(int source, int sink);
  int64_t push(int source, int sink, int64_t limit);

  std::vector<int> head_, level_, current_;
  std::vector<Arc> arcs_;
};

}  // namespace tide
