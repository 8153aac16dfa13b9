#include "cut/reorder.h"

#include <algorithm>
#include <utility>

namespace tide {

namespace {

std::vector<int> inverse(const std::vector<int>& order) {
  std::vector<int> at(order.size());
  for (size_t k = 0; k < order.size(); ++k) at[order[k]] = static_cast<int>(k);
  return at;
}

void find_lives(CutModel& m) {
  const int n = static_cast<int>(m.ops.size());
  std::vector<char> starts(m.storages.size()), stays(m.storages.size());
  for (size_t s = 0; s < m.storages.size(); ++s) {
    CutStorage& storage = m.storages[s];
    starts[s] = storage.first < 0;
    stays[s] = storage.last >= n;
    if (!starts[s]) storage.first = n;
    if (!stays[s]) storage.last = -1;
  }
  for (int op = 0; op < n; ++op)
    for (const int s : m.ops[op].touched) {
      CutStorage& storage = m.storages[s];
      storage.first = std::min(storage.first, op);
      storage.last = std::max(storage.last, op);
    }
}

void find_footprints(CutModel& m) {
  const int n = static_cast<int>(m.ops.size());
  Bytes live = 0;
  for (const CutStorage& storage : m.storages)
    if (storage.first < 0) live += storage.size;
  m.before.assign(n + 1, 0);
  m.footprint.assign(n, 0);
  for (int op = 0; op < n; ++op) {
    m.before[op] = live;
    const CutOp& o = m.ops[op];
    Bytes saving = 0;
    for (const int s : o.touched)
      if (m.storages[s].first == op) live += m.storages[s].size;
    for (const auto& [s, saved] : o.overwrites)
      if (m.storages[s].last == op) saving = std::max(saving, saved);
    m.footprint[op] = live + o.workspace - saving;
    for (const int s : o.touched)
      if (m.storages[s].last == op) live -= m.storages[s].size;
  }
  m.before[n] = live;
  m.raise_too_large();
}

}  // namespace

void reorder(CutModel& m, const std::vector<int>& order) {
  const std::vector<int> at = inverse(order);
  std::vector<CutOp> ops;
  ops.reserve(order.size());
  for (const int old : order) ops.push_back(std::move(m.ops[old]));
  m.ops = std::move(ops);
  for (CutTensor& tensor : m.tensors) {
    if (tensor.producer >= 0) tensor.producer = at[tensor.producer];
    for (int& reader : tensor.readers) reader = at[reader];
    std::sort(tensor.readers.begin(), tensor.readers.end());
  }
  find_lives(m);
  find_footprints(m);
}

Precedence::Precedence(std::vector<std::vector<int>> before) : before_(std::move(before)) { derive(); }

void Precedence::derive() {
  after_.assign(before_.size(), {});
  for (size_t op = 0; op < before_.size(); ++op)
    for (const int earlier : before_[op]) after_[earlier].push_back(static_cast<int>(op));
}

void Precedence::reorder(const std::vector<int>& order) {
  const std::vector<int> at = inverse(order);
  std::vector<std::vector<int>> before;
  before.reserve(order.size());
  for (const int old : order) {
    before.push_back(std::move(before_[old]));
    for (int& earlier : before.back()) earlier = at[earlier];
  }
  before_ = std::move(before);
  derive();
}

std::vector<int> Precedence::gathered(const std::vector<int>& together, int at) const {
  enum : char { kElse, kMember, kNeeded, kNeeds };
  const int n = static_cast<int>(before_.size());
  std::vector<char> is(n, kElse);
  for (const int op : together) is[op] = kMember;
  for (int op = n - 1; op >= at; --op)  // positions follow precedence, so that one pass sees all paths
    if (is[op] == kElse && std::any_of(after_[op].begin(), after_[op].end(),
                                       [&](int later) { return is[later] == kMember || is[later] == kNeeded; }))
      is[op] = kNeeded;
  for (int op = 0; op < at; ++op)
    if (is[op] == kElse && std::any_of(before_[op].begin(), before_[op].end(),
                                       [&](int earlier) { return is[earlier] == kMember || is[earlier] == kNeeds; }))
      is[op] = kNeeds;
  std::vector<int> order;
  order.reserve(n);
  const auto take = [&](int begin, int end, char what) {
    for (int op = begin; op < end; ++op)
      if (is[op] == what) order.push_back(op);
  };
  take(0, at, kElse);
  take(at, n, kNeeded);
  take(0, n, kMember);
  take(0, at, kNeeds);
  take(at, n, kElse);
  return order;
}

}  // namespace tide
