#include <algorithm>
#include <unordered_map>

#include "order/search.h"
#include "order/state_table.h"

namespace tide {

namespace {

// Depth first. Exploring a state D ends in one of three ways: D is dead (no completion within the budget), D leads to
// the end, or D has an exit: a state X not above D such that a completion from D exists iff one from X does. Whoever
// explored D goes on from X until it has come down to its own level, and then has an exit itself.
class NestedCommit final : public Search {
 public:
  NestedCommit(const Problem& problem, Bytes budget, const SearchRules& rules, size_t memory_bytes)
      : total_(problem.n), limit_(memory_bytes), move_(problem, budget, rules) {
    root_f_ = move_.close_all(problem.start, prefix_);
    root_ = table_.insert(move_.walker).first;
    call(root_, root_f_);
  }

  Answer run(int64_t slice, const std::function<bool()>& stop) override {
    const int64_t until = states_ + slice;
    for (int64_t turn = 0; states_ < until; ++turn) {
      if (memory_ > limit_) return Answer::kMemory;
      if (move_.may_stop(turn) && stop()) return Answer::kUnknown;
      if (stack_.empty()) {
        if (verdict_ == kDead) return Answer::kNo;
        prefix_.insert(prefix_.end(), path_.begin(), path_.end());
        if (verdict_ == kEnd) {
          order_ = prefix_;
          return Answer::kYes;
        }
        // The whole search has come to an exit: begin again from there.
        table_.jump(move_.walker, root_);
        for (int m : path_) move_.walker.run(m);
        table_.clear();
        fate_.clear();
        exits_.clear();
        root_f_ = move_.close_all(exit_f_, prefix_);
        root_ = table_.insert(move_.walker).first;
        call(root_, root_f_);
        continue;
      }
      advance();
    }
    return Answer::kUnknown;
  }

  int64_t work() const override { return move_.walker.work(); }

 private:
  enum Fate : char { kOpen, kDead, kExit, kEnd };
  struct Child {
    Bytes f;
    int move;
    std::vector<int> ran;  // the move's macros, and what the closure added
    bool operator<(const Child& other) const { return f != other.f ? f < other.f : move < other.move; }
  };
  struct Frame {
    int state;
    Bytes f;
    std::vector<Child> children;
    size_t next = 0;
    bool waiting = false;   // for the verdict on where the path has got to
    std::vector<int> path;  // from `state` through the current child, as far as it was followed
    Bytes path_f = 0;
  };
  struct Exit {
    Bytes f;
    std::vector<int> path;
  };

  // Asks for the fate of a state (the walker is there). The answer is in verdict_ at once, or when the frame pushed
  // has been popped.
  void call(int state, Bytes f) {
    if (static_cast<int>(fate_.size()) < table_.size()) fate_.resize(table_.size(), kOpen);
    if (move_.walker.done() == total_) {
      verdict_ = kEnd;
      path_.clear();
      return;
    }
    if (fate_[state] == kDead) {
      verdict_ = kDead;
      return;
    }
    if (fate_[state] == kExit) {
      verdict_ = kExit;
      path_ = exits_[state].path;
      exit_f_ = exits_[state].f;
      return;
    }
    verdict_ = kOpen;
    stack_.push_back({state, f, {}, 0, false, {}, 0});
    open(stack_.back());
  }

  // Lists the children of a new frame, lowest first. One that is not above the frame's state is an exit already.
  void open(Frame& frame) {
    ++states_;
    next_ = std::min(next_, move_.look_around(frame.f));
    for (size_t k = 0; k < move_.outcomes.size(); ++k) {
      if (frame.f + move_.outcomes[k].hill > move_.budget) continue;
      const Bytes after = move_.make_move(frame.f, k);
      const bool safe = move_.is_safe(frame.f, after);
      move_.take_back_move();
      if (safe) frame.children.clear();
      frame.children.push_back({after, static_cast<int>(k), std::move(move_.ran)});
      if (safe) break;
    }
    std::sort(frame.children.begin(), frame.children.end());
    memory_ = std::max(memory_, table_.memory() + exit_bytes_ + stack_.size() * 256);
  }

  void advance() {
    Frame& frame = stack_.back();
    if (frame.waiting) {
      frame.waiting = false;
      if (verdict_ == kExit) {
        frame.path.insert(frame.path.end(), path_.begin(), path_.end());
        frame.path_f = exit_f_;
        follow();
        return;
      }
      if (verdict_ == kEnd) {
        frame.path.insert(frame.path.end(), path_.begin(), path_.end());
        path_ = std::move(frame.path);
        stack_.pop_back();
        return;
      }
    }
    if (frame.next == frame.children.size()) {
      fate_[frame.state] = kDead;
      verdict_ = kDead;
      stack_.pop_back();
      return;
    }
    Child& child = frame.children[frame.next++];
    frame.path_f = child.f;
    frame.path = std::move(child.ran);
    follow();
  }

  // The frame's path has got to a new place: an exit, or to be explored in turn.
  void follow() {
    const size_t mine = stack_.size() - 1;
    table_.jump(move_.walker, stack_[mine].state);
    if (move_.rules.commits && stack_[mine].path_f <= stack_[mine].f) {
      Frame& frame = stack_[mine];
      exit_f_ = repair(move_.walker, frame.f, frame.path_f, frame.path);
      path_ = std::move(frame.path);
      verdict_ = kExit;
      fate_[frame.state] = kExit;
      exit_bytes_ += path_.size() * sizeof(int) + sizeof(Exit);
      exits_[frame.state] = {exit_f_, path_};
      stack_.pop_back();
      return;
    }
    for (int m : stack_[mine].path) move_.walker.run(m);
    stack_[mine].path_f = move_.close_all(stack_[mine].path_f, stack_[mine].path);
    stack_[mine].waiting = true;
    const int state = table_.insert(move_.walker).first;
    call(state, stack_[mine].path_f);
  }

  const int total_;
  const size_t limit_;
  Mover move_;
  StateTable table_;
  std::vector<Fate> fate_;
  std::unordered_map<int, Exit> exits_;
  size_t exit_bytes_ = 0;
  std::vector<Frame> stack_;
  std::vector<int> prefix_;  // what ran before the root
  int root_ = 0;
  Bytes root_f_ = 0;
  Fate verdict_ = kOpen;   // of the call that ended last
  std::vector<int> path_;  // its path to the exit or the end
  Bytes exit_f_ = 0;
};

}  // namespace

std::unique_ptr<Search> nested_commit(const Problem& problem, Bytes budget, const SearchRules& rules,
                                      size_t memory_bytes) {
  return std::make_unique<NestedCommit>(problem, budget, rules, memory_bytes);
}

}  // namespace tide
