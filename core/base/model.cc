#include "base/model.h"

#include <algorithm>
#include <numeric>

namespace tide {

void Model::derive() {
  succs.assign(n, {});
  for (int v = 0; v < n; ++v)
    for (int u : preds[v]) succs[u].push_back(v);
  touched.assign(n, {});
  for (int s = 0; s < static_cast<int>(storages.size()); ++s)
    for (int v : storages[s].users) touched[v].push_back(s);
}

Lives lives(const Model& model, const std::vector<int>& order) {
  const int n = model.n;
  std::vector<int> step_of(n);
  for (int step = 0; step < n; ++step) step_of[order[step]] = step;
  std::vector<Bytes> begun(n + 1, 0), ended(n + 1, 0);
  Lives result;
  result.first.reserve(model.storages.size());
  result.last.reserve(model.storages.size());
  for (const Storage& storage : model.storages) {
    int begin = n, end = -1;
    for (int v : storage.users) {
      begin = std::min(begin, step_of[v]);
      end = std::max(end, step_of[v]);
    }
    if (storage.at_start) begin = -1;
    if (storage.at_end) end = n;
    result.first.push_back(begin);
    result.last.push_back(end);
    begun[std::max(begin, 0)] += storage.size;
    ended[std::max(end, 0)] += storage.size;
  }
  result.footprint.reserve(n);
  result.transient.reserve(n);
  Bytes live = 0;
  for (int step = 0; step < n; ++step) {
    const int v = order[step];
    live += begun[step];
    int best = -1;
    const std::vector<Overwrite>& overwrites = model.overwrites[v];
    for (int k = 0; k < static_cast<int>(overwrites.size()); ++k)
      if (result.last[overwrites[k].storage] == step && (best < 0 || overwrites[k].saving > overwrites[best].saving))
        best = k;
    if (best >= 0) result.in_place.emplace_back(v, best);
    result.footprint.push_back(live + model.workspace[v] - (best < 0 ? 0 : overwrites[best].saving));
    live -= ended[step];
    result.transient.push_back(live);
  }
  return result;
}

std::vector<Bytes> footprints(const Model& model, const std::vector<int>& order) {
  return lives(model, order).footprint;
}

Bytes peak(const Model& model, const std::vector<int>& order) {
  Bytes most = 0;
  for (Bytes b : footprints(model, order)) most = std::max(most, b);
  return most;
}

Bytes unit_of(const Model& model) {
  Bytes unit = 0;
  for (const Storage& s : model.storages) unit = std::gcd(unit, s.size);
  for (Bytes w : model.workspace) unit = std::gcd(unit, w);
  for (const auto& row : model.overwrites)
    for (const Overwrite& o : row) unit = std::gcd(unit, o.saving);
  return std::max<Bytes>(unit, 1);
}

}  // namespace tide
