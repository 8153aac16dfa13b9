#include "papers/sample.h"

#include <algorithm>
#include <unordered_map>

#include "base/hash.h"

namespace tide {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // A number below `end`, uniform but for a bias of end / 2^32 (Lemire's multiplication).
  uint32_t below(uint32_t end) { return static_cast<uint32_t>((next() >> 32) * end >> 32); }

 private:
  uint64_t next() { return mix(state_ += kGolden); }
  uint64_t state_;
};

// Lists of numbers, one after the other in memory.
struct Lists {
  explicit Lists(const std::vector<std::vector<int>>& lists) : first(1, 0) {
    for (const std::vector<int>& list : lists) {
      items.insert(items.end(), list.begin(), list.end());
      first.push_back(static_cast<int>(items.size()));
    }
  }
  const int* begin(int row) const { return items.data() + first[row]; }
  const int* end(int row) const { return items.data() + first[row + 1]; }

  std::vector<int> items, first;
};

class Sampler {
 public:
  explicit Sampler(const Model& model) : model_(model), succs_(model.succs), touched_(model.touched) {
    for (const std::vector<int>& before : model.preds) waits_at_first_.push_back(static_cast<int>(before.size()));
    for (int v = 0; v < model.n; ++v)
      if (model.preds[v].empty()) ready_at_first_.push_back(v);
    for (const Storage& s : model.storages) {
      const int users = static_cast<int>(s.users.size());
      // A storage that stays has one user too many, so that none is the last.
      left_at_first_.push_back(users + s.at_end);
      fresh_.push_back(s.at_start ? -1 : users + s.at_end);
      if (s.at_start && (users || s.at_end)) live_at_first_ += s.size;
    }
  }

  Bytes draw(Random& random) {
    waits_ = waits_at_first_;
    left_ = left_at_first_;
    ready_ = ready_at_first_;
    Bytes live = live_at_first_, most = 0;
    while (!ready_.empty()) {
      const size_t k = ready_.size() == 1 ? 0 : random.below(static_cast<uint32_t>(ready_.size()));
      const int v = ready_[k];
      ready_[k] = ready_.back();
      ready_.pop_back();
      Bytes freed = 0, saving = 0;
      for (const int* s = touched_.begin(v); s != touched_.end(v); ++s) {
        const Bytes size = model_.storages[*s].size;
        if (left_[*s] == fresh_[*s]) live += size;
        if (--left_[*s] == 0) freed += size;
      }
      for (const Overwrite& o : model_.overwrites[v])
        if (left_[o.storage] == 0) saving = std::max(saving, o.saving);
      most = std::max(most, live + model_.workspace[v] - saving);
      live -= freed;
      for (const int* w = succs_.begin(v); w != succs_.end(v); ++w)
        if (--waits_[*w] == 0) ready_.push_back(*w);
    }
    return most;
  }

 private:
  const Model& model_;
  const Lists succs_, touched_;
  std::vector<int> waits_at_first_, left_at_first_, fresh_, ready_at_first_;
  std::vector<int> waits_, left_, ready_;
  Bytes live_at_first_ = 0;
};

}  // namespace

Sample sample(const Model& model, int64_t orders, uint64_t seed, const std::function<bool(int64_t)>& report) {
  constexpr int64_t kBetweenReports = 2048;
  Random random(seed);
  Sampler sampler(model);
  std::unordered_map<Bytes, int64_t> seen;
  Sample result;
  while (result.orders < orders) {
    ++seen[sampler.draw(random)];
    if (++result.orders % kBetweenReports == 0 && report(result.orders)) break;
  }
  result.peaks.insert(seen.begin(), seen.end());
  return result;
}

}  // namespace tide
