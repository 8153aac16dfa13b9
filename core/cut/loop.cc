#include "cut/loop.h"

#include <algorithm>
#include <numeric>

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
  Player(const std::vector<LoopOp>& ops, const std::vector<LoopTensor>& tensors, const std::vector<int64_t>& inputs,
         int handed)
      : ops_(ops),
        tensors_(tensors),
        inputs_(inputs),
        progress_(ops.size(), 0),
        maker_(tensors.size(), -1),
        last_(tensors.size()),
        input_readers_(inputs.size()),
        lows_(inputs.size(), std::vector<std::vector<int64_t>>(tensors.size())) {
    readers_.resize(tensors.size());
    made_.assign(tensors.size(), 0);
    slots_.assign(tensors.size(), 0);
    for (int o = 0; o < static_cast<int>(ops.size()); ++o) {
      for (const int t : ops[o].makes) maker_[t] = o;
      for (int r = 0; r < static_cast<int>(ops[o].reads.size()); ++r)
        readers_[ops[o].reads[r].tensor].push_back({o, r});
      for (int r = 0; r < static_cast<int>(ops[o].outside.size()); ++r)
        input_readers_[ops[o].outside[r].tensor].push_back({o, r});
    }
    for (int t = 0; t < static_cast<int>(tensors.size()); ++t) last_[t] = t;
    for (int t = static_cast<int>(tensors.size()) - 1; t >= 0; --t)  // a tensor is listed behind what it lies over
      if (tensors[t].over >= 0) last_[tensors[t].over] = last_[t];
    root_.assign(tensors.size(), -1);
    for (int t = 0; t < static_cast<int>(tensors.size()); ++t)
      if (!tensors[last_[t]].whole) root_[t] = tensors[t].over < 0 ? t : root_[tensors[t].over];
    holding_.assign((tensors.size() + 63) / 64, 0);
    beside_.assign(tensors.size(), holding_);
    sink_.assign(ops.size(), true);
    for (int o = 0; o < static_cast<int>(ops.size()); ++o)
      for (const int t : ops[o].makes) sink_[o] = sink_[o] && readers_[t].empty();
    find_aside(handed);
  }

  LoopPlay run() {
    const int driver = static_cast<int>(ops_.size()) - 1;
    while (progress_[driver] < positions(driver)) ask(driver);
    for (int o = 0; o < driver; ++o) {
      const bool leaves =
          sink_[o] || std::any_of(ops_[o].makes.begin(), ops_[o].makes.end(), [&](int t) { return tensors_[t].whole; });
      while (leaves && progress_[o] < positions(o)) ask(o);
    }
    LoopPlay result{slots_, made_, {}, {}, std::vector<std::vector<int>>(tensors_.size())};
    for (size_t t = 0; t < tensors_.size(); ++t)
      for (size_t u = 0; u < tensors_.size(); ++u)
        if (t != u && (bit(beside_[t], u) || bit(beside_[u], t))) result.beside[t].push_back(static_cast<int>(u));
    for (size_t k = 0; k < inputs_.size(); ++k) {
      result.behind.emplace_back();
      result.begun.emplace_back();
      for (size_t t = 0; t < tensors_.size(); ++t) {
        result.behind[k].push_back(behind(lows_[k][t], tensors_[t].bytes, slots_[t]));
        result.begun[k].push_back(lows_[k][t].empty() ? 0 : lows_[k][t][0]);
      }
    }
    return result;
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

  // Which ops the driver needs nothing of, and of these, which have to keep up with each op: those that read, directly
  // or by each other, of what others make, and hang together with it.
  void find_aside(int handed) {
    const int count = static_cast<int>(ops_.size());
    aside_.assign(count, true);
    aside_[count - 1] = false;
    for (int o = count - 1; o >= 0; --o)
      for (const auto& read : ops_[o].reads)
        if (!aside_[o]) aside_[maker_[read.tensor]] = false;
    for (int o = 0; o < handed; ++o) aside_[o] = false;
    std::vector<int> group(count);  // of ops that are aside and hang together: the lowest
    std::iota(group.begin(), group.end(), 0);
    std::vector<bool> fed(count, false);
    for (int o = 0; o < count; ++o)
      for (const auto& read : ops_[o].reads) {
        const int maker = maker_[read.tensor];
        fed[o] = fed[o] || (aside_[o] && (!aside_[maker] || fed[maker]));
        if (!aside_[o] || !aside_[maker]) continue;
        const int one = group[maker], other = group[o];
        std::replace(group.begin(), group.end(), one, other);
      }
    for (int o = count - 1; o >= 0; --o)
      if (fed[o]) fed_.push_back(o);
    keeping_up_.resize(count);
    for (int o = 0; o < count; ++o) {
      std::vector<bool> chosen(count, false);
      if (aside_[o]) chosen[group[o]] = true;
      for (const int t : ops_[o].makes)
        for (const auto& [reader, _] : readers_[t])
          if (aside_[reader]) chosen[group[reader]] = true;
      for (const int x : fed_)
        if (chosen[group[x]]) keeping_up_[o].push_back(x);
    }
  }

  // Whose position runs so that one of `op`, which is aside, can: its own, or one that it needs of an op that is aside
  // too; -1: none.
  int ready(int op) const {
    if (progress_[op] == positions(op)) return -1;
    for (int before = missing(op); before >= 0; before = missing(op)) {
      if (!aside_[before]) return -1;
      op = before;
    }
    return op;
  }

  // Runs a position, and then whatever is aside as far as it can, the last of it first.
  void run_with_aside(int op) {
    make(op);
    const auto& listed = begun_ ? keeping_up_[op] : fed_;
    begun_ = true;
    for (size_t k = 0; k < listed.size();) {
      const int next = ready(listed[k]);
      if (next >= 0) make(next);
      k = next >= 0 ? 0 : k + 1;
    }
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
      run_with_aside(at);
    }
  }

  // Bytes of an input that nobody reads any more, from the position on that is made now.
  int64_t done_with(int input) const {
    int64_t low = kDone;
    for (const auto& [reader, r] : input_readers_[input]) low = std::min(low, lowest(reader, ops_[reader].outside[r]));
    return low == kDone ? kDone : low * inputs_[input];
  }

  // By how many bytes what is written position by position has to begin below an input; `lows`: bytes of the input that
  // are done with when each position is written, of which a ring writes the first ones alone into bytes of the input.
  static int64_t behind(const std::vector<int64_t>& lows, int64_t bytes, int64_t slots) {
    int64_t most = -kDone;
    const int64_t count = static_cast<int64_t>(lows.size());
    for (int64_t p = 0; p < (slots > 0 ? std::min(slots, count) : count); ++p)
      most = std::max(most, (p + 1) * bytes - lows[p]);
    return most;
  }

  void make(int op) {
    for (int k = 0; k < static_cast<int>(inputs_.size()); ++k) {
      const int64_t low = done_with(k);
      for (const int t : ops_[op].makes) lows_[k][t].push_back(low);
    }
    for (const int t : ops_[op].makes)
      if (root_[t] >= 0) hold(root_[t]);
    ++progress_[op];
    for (const int t : ops_[op].makes) {
      ++made_[t];
      if (tensors_[t].over < 0 && !tensors_[last_[t]].whole) keep(t);
    }
    for (const auto& read : ops_[op].reads) release(root_[read.tensor]);
    for (const int t : ops_[op].makes) release(root_[t]);
  }

  static bool bit(const std::vector<uint64_t>& bits, size_t k) { return bits[k / 64] >> (k % 64) & 1; }

  // A ring has something from now on, while what the op reads is still there.
  void hold(int root) {
    if (bit(holding_, root)) return;
    for (size_t k = 0; k < holding_.size(); ++k) beside_[root][k] |= holding_[k];
    holding_[root / 64] |= uint64_t{1} << (root % 64);
  }

  // A ring may have nothing any more.
  void release(int root) {
    if (root < 0 || !bit(holding_, root) || made_[root] > lowest_read(root)) return;
    holding_[root / 64] &= ~(uint64_t{1} << (root % 64));
  }

  // The lowest position that is still read of the last tensor that lies in a ring.
  int64_t lowest_read(int tensor) const {
    int64_t low = made_[last_[tensor]];
    for (const auto& [reader, r] : readers_[last_[tensor]]) low = std::min(low, lowest(reader, ops_[reader].reads[r]));
    return low;
  }

  void keep(int tensor) {
    slots_[tensor] = std::max({slots_[tensor], made_[tensor] - lowest_read(tensor), int64_t{1}});
  }

  const std::vector<LoopOp>& ops_;
  const std::vector<LoopTensor>& tensors_;
  const std::vector<int64_t>& inputs_;
  std::vector<int64_t> progress_, made_, slots_;
  std::vector<int> maker_, last_;
  std::vector<std::vector<std::pair<int, int>>> readers_;        // (op, which of its reads)
  std::vector<std::vector<std::pair<int, int>>> input_readers_;  // likewise, of inputs
  std::vector<std::vector<std::vector<int64_t>>> lows_;
  std::vector<int> root_;                      // whose ring a tensor lies in; -1: it is whole
  std::vector<uint64_t> holding_;              // of roots, as bits: where something is that is still read
  std::vector<std::vector<uint64_t>> beside_;  // of a root: where something was when it began to have something
  std::vector<bool> sink_, aside_;
  std::vector<int> fed_;  // ops that are aside and read of what others make, the last one first
  std::vector<std::vector<int>>
      keeping_up_;  // of these, for each op, those that may run once a position of it is there
  bool begun_ = false;
  std::vector<int> stack_;
};

}  // namespace

LoopPlay play_loop(const std::vector<LoopOp>& ops, const std::vector<LoopTensor>& tensors,
                   const std::vector<int64_t>& inputs, int handed) {
  return Player(ops, tensors, inputs, handed).run();
}

}  // namespace tide
