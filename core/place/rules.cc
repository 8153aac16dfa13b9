#include "place/rules.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

namespace tide::place {

std::optional<Key> key_named(const std::string& name) {
  static constexpr std::pair<const char*, Key> kNames[] = {
      {"tflm", Key::kTflm}, {"tflite", Key::kTflite},         {"size", Key::kSize},
      {"area", Key::kArea}, {"duration", Key::kDuration},     {"start", Key::kStart},
      {"end", Key::kEnd},   {"contention", Key::kContention}, {"contention-area", Key::kContentionArea},
  };
  for (const auto& [known, key] : kNames)
    if (name == known) return key;
  return std::nullopt;
}

Load load(const Problem& problem) {
  std::vector<std::pair<int64_t, Bytes>> changes;
  changes.reserve(2 * problem.pieces.size());
  for (const Piece& p : problem.pieces) {
    changes.emplace_back(p.start, p.high - p.low);
    changes.emplace_back(p.end, p.low - p.high);
  }
  std::sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Load result;
  Bytes live = 0;
  for (size_t k = 0; k < changes.size();) {
    const int64_t step = changes[k].first;
    while (k < changes.size() && changes[k].first == step) live += changes[k++].second;
    result.steps.push_back(step);
    result.bytes.push_back(live);
  }
  return result;
}

Orders::Orders(const Problem& problem) : problem_(problem) {
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    __int128 area = 0;
    for (int k = b.first; k < b.last; ++k) {
      const Piece& p = problem.pieces[k];
      area += static_cast<__int128>(p.end - p.start) * (p.high - p.low);
    }
    area_.push_back(area);
    end_ = std::max(end_, problem.end(static_cast<int>(i)));
  }
}

// The most that is live at once between a buffer's start and end, by a table of maxima over powers of two.
void Orders::find_contention() {
  const Load all = load(problem_);
  std::vector<std::vector<Bytes>> most{all.bytes};
  for (size_t half = 1; 2 * half <= all.bytes.size(); half *= 2) {
    const std::vector<Bytes>& below = most.back();
    std::vector<Bytes> level(below.size() - half);
    for (size_t k = 0; k < level.size(); ++k) level[k] = std::max(below[k], below[k + half]);
    most.push_back(std::move(level));
  }
  const auto at = [&](int64_t step) {
    return static_cast<size_t>(std::lower_bound(all.steps.begin(), all.steps.end(), step) - all.steps.begin());
  };
  contention_.resize(problem_.buffers.size());
  for (size_t i = 0; i < contention_.size(); ++i) {
    const int b = static_cast<int>(i);
    if (problem_.empty(b)) continue;
    const size_t from = at(problem_.start(b)), to = at(problem_.end(b));
    const int level = std::bit_width(to - from) - 1;
    contention_[i] = std::max(most[level][from], most[level][to - (size_t{1} << level)]);
  }
}

const std::vector<int>& Orders::by(Key key) {
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  if ((key == Key::kContention || key == Key::kContentionArea) && contention_.empty()) find_contention();
  const auto size = [&](int i) { return problem_.buffers[i].size; };
  const auto start = [&](int i) { return problem_.start(i); };
  const auto end = [&](int i) { return problem_.end(i); };
  const auto duration = [&](int i) { return problem_.end(i) - problem_.start(i); };
  const auto always = [&](int i) { return problem_.start(i) == 0 && problem_.end(i) == end_; };
  std::vector<int> order(problem_.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  if (key == Key::kTflm) std::reverse(order.begin(), order.end());
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    switch (key) {
      case Key::kTflm: return size(a) > size(b);
      case Key::kTflite:
        if (always(a) || always(b)) return always(a) && !always(b);
        return std::tuple(size(b), start(a)) < std::tuple(size(a), start(b));
      case Key::kSize: return std::tuple(size(a), duration(a)) > std::tuple(size(b), duration(b));
      case Key::kArea: return area_[a] > area_[b];
      case Key::kDuration: return std::tuple(duration(a), size(a)) > std::tuple(duration(b), size(b));
      case Key::kStart: return std::tuple(start(a), size(b)) < std::tuple(start(b), size(a));
      case Key::kEnd: return std::tuple(end(a), size(a)) > std::tuple(end(b), size(b));
      case Key::kContention:
        return std::tuple(contention_[a], duration(a), area_[a]) > std::tuple(contention_[b], duration(b), area_[b]);
      case Key::kContentionArea:
        return std::tuple(contention_[a], area_[a], duration(a)) > std::tuple(contention_[b], area_[b], duration(b));
    }
    return false;
  });
  return known_[key] = std::move(order);
}

}  // namespace tide::place
