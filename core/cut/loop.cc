#include "cut/loop.h"

#include <algorithm>

#include "cut/rows.h"

namespace tide {

namespace {

constexpr int64_t kDone = int64_t{1} << 62;

int64_t first_of(const LoopIndex& index, int64_t row) {
  return std::clamp<int64_t>(floor_div(row * index.num + index.lo, index.den), 0, index.size);
}

int64_t end_of(const LoopIndex& index, int64_t row) {
  return std::clamp<int64_t>(floor_div(row * index.num + index.hi, index.den) + 1, 0, index.size);
}

class Player {
 public:
  Player(const std::vector<LoopOp>& ops, const std::vector<LoopTensor>& tensors)
      : ops_(ops), tensors_(tensors), progress_(ops.size(), 0), maker_(tensors.size(), -1), last_(tensors.size()) {
    readers_.resize(tensors.size());
    made_.assign(tensors.size(), 0);
    slots_.assign(tensors.size(), 0);
    for (int o = 0; o < static_cast<int>(ops.size()); ++o) {
      for (const int t : ops[o].makes) maker_[t] = o;
      for (int r = 0; r < static_cast<int>(ops[o].reads.size()); ++r)
        readers_[ops[o].reads[r].tensor].push_back({o, r});
    }
    for (int t = 0; t < static_cast<int>(tensors.size()); ++t) last_[t] = t;
    for (int t = static_cast<int>(tensors.size()) - 1; t >= 0; --t)  // a tensor is listed behind what it lies over
      if (tensors[t].over >= 0) last_[tensors[t].over] = last_[t];
    sink_.assign(ops.size(), true);
    for (int o = 0; o < static_cast<int>(ops.size()); ++o)
      for (const int t : ops[o].makes) sink_[o] = sink_[o] && readers_[t].empty();
  }

  LoopPlay run() {
    const int driver = static_cast<int>(ops_.size()) - 1;
    while (progress_[driver] < positions(driver)) ask(driver);
    for (int o = 0; o < driver; ++o) {
      const bool leaves =
          sink_[o] || std::any_of(ops_[o].makes.begin(), ops_[o].makes.end(), [&](int t) { return tensors_[t].whole; });
      while (leaves && progress_[o] < positions(o)) ask(o);
    }
    return {slots_, made_};
  }

 private:
  int64_t positions(int op) const { return ops_[op].rows * ops_[op].columns; }

  // Position before which all lies that the next one of an op reads.
  int64_t needed(int op, const LoopRead& read) const {
    const int64_t y = progress_[op] / ops_[op].columns, x = progress_[op] % ops_[op].columns;
    const int64_t end = end_of(read.row, y), last = end_of(read.column, x);
    if (end <= first_of(read.row, y) || last <= first_of(read.column, x)) return 0;
    return (end - 1) * read.column.size + last;
  }

  // The lowest position that an op still reads, from its next one on.
  int64_t lowest(int op, const LoopRead& read) const {
    if (progress_[op] == positions(op)) return kDone;
    const int64_t y = progress_[op] / ops_[op].columns, x = progress_[op] % ops_[op].columns, w = read.column.size;
    const int64_t now = first_of(read.row, y) * w + first_of(read.column, x);
    if (y + 1 == ops_[op].rows) return now;
    return std::min(now, first_of(read.row, y + 1) * w + first_of(read.column, 0));
  }

  // An op whose position `op` needs first; -1: all is there.
  int missing(int op) const {
    for (const auto& read : ops_[op].reads)
      if (made_[read.tensor] < needed(op, read)) return maker_[read.tensor];
    return -1;
  }

  void ask(int op) {
    stack_.assign(1, op);
    while (!stack_.empty()) {
      const int at = stack_.back();
      if (progress_[at] == positions(at)) {  // it ran meanwhile, as it could
        stack_.pop_back();
        continue;
      }
      const int before = missing(at);
      if (before >= 0) {
        stack_.push_back(before);
        continue;
      }
      stack_.pop_back();
      make(at);
    }
  }

  void make(int op) {
    ++progress_[op];
    for (const int t : ops_[op].makes) {
      ++made_[t];
      if (tensors_[t].over < 0 && !tensors_[last_[t]].whole) keep(t);
    }
    for (const int t : ops_[op].makes)
      for (const auto& [reader, _] : readers_[t])
        if (sink_[reader] && reader != static_cast<int>(ops_.size()) - 1)
          while (progress_[reader] < positions(reader) && missing(reader) < 0) make(reader);
  }

  void keep(int tensor) {
    int64_t low = made_[last_[tensor]];
    for (const auto& [reader, r] : readers_[last_[tensor]]) low = std::min(low, lowest(reader, ops_[reader].reads[r]));
    slots_[tensor] = std::max({slots_[tensor], made_[tensor] - low, int64_t{1}});
  }

  const std::vector<LoopOp>& ops_;
  const std::vector<LoopTensor>& tensors_;
  std::vector<int64_t> progress_, made_, slots_;
  std::vector<int> maker_, last_;
  std::vector<std::vector<std::pair<int, int>>> readers_;  // (op, which of its reads)
  std::vector<bool> sink_;
  std::vector<int> stack_;
};

}  // namespace

LoopPlay play_loop(const std::vector<LoopOp>& ops, const std::vector<LoopTensor>& tensors) {
  return Player(ops, tensors).run();
}

}  // namespace tide
