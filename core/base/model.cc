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

std::vector<Bytes> footprints(const Model& model, const std::vector<int>& order) {
  const int n = model.n;
  std::vector<int> step_of(n);
  for (int step = 0; step < n; ++step) step_of[order[step]] = step;
  std::vector<Bytes> change(n + 2, 0);
  std::vector<int> last(model.storages.size());
  for (size_t s = 0; s < model.storages.size(); ++s) {
    const Storage& storage = model.storages[s];
    int begin = n, end = -1;
    for (int v : storage.users) {
      begin = std::min(begin, step_of[v]);
      end = std::max(end, step_of[v]);
    }
    if (storage.at_start) begin = 0;
    if (storage.at_end) end = n;
    last[s] = end;
    change[begin] += storage.size;
    change[end + 1] -= storage.size;
  }
  std::vector<Bytes> result(n);
  Bytes live = 0;
  for (int step = 0; step < n; ++step) {
    const int v = order[step];
    live += change[step];
    Bytes saving = 0;
    for (const Overwrite& o : model.overwrites[v])
      if (last[o.storage] == step) saving = std::max(saving, o.saving);
    result[step] = live + model.workspace[v] - saving;
  }
  return result;
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
