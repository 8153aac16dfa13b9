#include <algorithm>
#include <unordered_map>

#include "base/flow.h"
#include "order/search.h"

namespace tide {

// A minimum cut over the macros of `extra` (source side: run). What a macro changes in every state is paid by its
// own arc; a storage whose begin or finish depends on the state is paid once, by whoever begins it, and refunded
// only when all that touch it ran.
Lowest lowest_between(const Walker& walker, const std::vector<int>& extra) {
  constexpr int kSource = 0, kSink = 1;
  const Problem& p = walker.problem();
  FlowNetwork net(2);
  std::unordered_map<int, int> node;
  std::vector<int> storages;
  for (int m : extra) {
    node[m] = net.add_node();
    storages.insert(storages.end(), p.touched.first(m), p.touched.last(m));
  }
  Bytes constant = 0;
  for (int m : extra) {
    const int at = node[m];
    for (const int* u = p.preds.first(m); u != p.preds.last(m); ++u)
      if (const auto it = node.find(*u); it != node.end()) net.add_arc(at, it->second, FlowNetwork::kInfinite);
    if (p.fixed[m] > 0) net.add_arc(at, kSink, p.fixed[m]);
    if (p.fixed[m] < 0) {
      net.add_arc(kSource, at, -p.fixed[m]);
      constant += p.fixed[m];
    }
  }
  std::sort(storages.begin(), storages.end());
  storages.erase(std::unique(storages.begin(), storages.end()), storages.end());
  for (int s : storages) {
    std::vector<int> here;
    for (const int* m = p.users.first(s); m != p.users.last(s); ++m)
      if (const auto it = node.find(*m); it != node.end()) here.push_back(it->second);
    if (p.begins[s] && walker.count(s) == 0) {
      const int paid = net.add_node();
      net.add_arc(paid, kSink, p.size[s]);
      for (int at : here) net.add_arc(at, paid, FlowNetwork::kInfinite);
    }
    if (p.finishes[s] && walker.count(s) + static_cast<int>(here.size()) == p.users.length(s)) {
      const int kept = net.add_node();
      net.add_arc(kSource, kept, p.size[s]);
      for (int at : here) net.add_arc(kept, at, FlowNetwork::kInfinite);
      constant -= p.size[s];
    }
  }
  Lowest lowest{net.augment(kSource, kSink) + constant, {}};
  const std::vector<char> run = net.source_side(kSource);
  for (int m : extra) lowest.within.push_back(run[node[m]]);
  return lowest;
}

}  // namespace tide
