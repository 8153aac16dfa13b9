// The orders in which the well-known greedy allocators place buffers. Whatever a key leaves open, the index decides.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "place/placer.h"

namespace tide::place {

enum class Key {
  kTflm,            // decreasing size; of equal ones the last first
  kTflite,          // what is there all the time, by index; then decreasing size, ascending start
  kSize,            // decreasing size, then duration
  kArea,            // decreasing bytes times steps
  kDuration,        // decreasing duration, then size
  kStart,           // ascending start, then decreasing size
  kEnd,             // descending end, then decreasing size: kStart with time reversed
  kContention,      // decreasing load around it, then duration, then area (minimalloc's TWA)
  kContentionArea,  // decreasing load around it, then area, then duration (minimalloc's TAW)
};

// By the names that Python uses; none if there is no such key.
std::optional<Key> key_named(const std::string& name);

// A greedy: in which order buffers are placed, and with which fit.
struct Rule {
  Key key;
  bool best_fit;
};

// What is live from each step on at which something begins or ends; bytes that a pair may share count twice.
struct Load {
  std::vector<int64_t> steps;  // ascending
  std::vector<Bytes> bytes;
};
Load load(const Problem& problem);

// Orders of a problem, each worked out once.
class Orders {
 public:
  explicit Orders(const Problem& problem);
  const std::vector<int>& by(Key key);

 private:
  void find_contention();

  const Problem& problem_;
  std::map<Key, std::vector<int>> known_;
  std::vector<__int128> area_;
  std::vector<Bytes> contention_;
  int64_t end_ = 0;
};

}  // namespace tide::place
