#include "base/flow.h"

#include <algorithm>

namespace tide {

int FlowNetwork::add_arc(int from, int to, int64_t capacity) {
  const int arc = static_cast<int>(arcs_.size());
  arcs_.push_back({to, head_[from], capacity});
  head_[from] = arc;
  arcs_.push_back({from, head_[to], 0});
  head_[to] = arc + 1;
  return arc;
}

bool FlowNetwork::levels(int source, int sink) {
  level_.assign(head_.size(), -1);
  std::vector<int> queue{source};
  level_[source] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    const int at = queue[i];
    for (int a = head_[at]; a >= 0; a = arcs_[a].next) {
      const int to = arcs_[a].to;
      if (arcs_[a].residual > 0 && level_[to] < 0) {
        level_[to] = level_[at] + 1;
        queue.push_back(to);
      }
    }
  }
  return level_[sink] >= 0;
}

// One augmenting path along levels, found without recursion; paths can be as long as the graph.
int64_t FlowNetwork::push(int source, int sink, int64_t limit) {
  std::vector<int> path;
  int at = source;
  while (true) {
    if (at == sink) {
      int64_t amount = limit;
      for (int a : path) amount = std::min(amount, arcs_[a].residual);
      for (int a : path) {
        arcs_[a].residual -= amount;
        arcs_[a ^ 1].residual += amount;
      }
      return amount;
    }
    bool advanced = false;
    for (int& a = current_[at]; a >= 0; a = arcs_[a].next) {
      if (arcs_[a].residual > 0 && level_[arcs_[a].to] == level_[at] + 1) {
        path.push_back(a);
        at = arcs_[a].to;
        advanced = true;
        break;
      }
    }
    if (advanced) continue;
    if (path.empty()) return 0;
    level_[at] = -1;
    at = arcs_[path.back() ^ 1].to;
    path.pop_back();
  }
}

int64_t FlowNetwork::augment(int source, int sink, int64_t enough) {
  int64_t total = 0;
  while (total < enough && levels(source, sink)) {
    current_ = head_;
    while (total < enough) {
      const int64_t amount = push(source, sink, enough - total);
      if (amount == 0) break;
      total += amount;
    }
  }
  return total;
}

std::vector<char> FlowNetwork::source_side(int source) const {
  std::vector<char> seen(head_.size(), 0);
  std::vector<int> queue{source};
  seen[source] = 1;
  for (size_t i = 0; i < queue.size(); ++i)
    for (int a = head_[queue[i]]; a >= 0; a = arcs_[a].next)
      if (arcs_[a].residual > 0 && !seen[arcs_[a].to]) {
        seen[arcs_[a].to] = 1;
        queue.push_back(arcs_[a].to);
      }
  return seen;
}

}  // namespace tide
