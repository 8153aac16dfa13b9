#include <numeric>
#include <queue>

#include "order/search.h"
#include "order/state_table.h"

namespace tide {

namespace {

class BestFirst final : public Search {
 public:
  BestFirst(const Problem& problem, Bytes budget, const SearchRules& rules, size_t memory_bytes,
            const Symmetry* symmetry)
      : total_(problem.n),
        limit_(memory_bytes),
        symmetry_(symmetry),
        move_(problem, budget, rules),
        canonical_(problem.n + 1) {
    plant(move_.close_all(problem.start, prefix_));
  }

  Answer run(int64_t slice, const std::function<bool()>& stop) override {
    for (int64_t n = 0; n < slice;) {
      if (queue_.empty()) return Answer::kNo;
      if (memory_ > limit_) return Answer::kMemory;
      if (move_.may_stop(states_) && stop()) return Answer::kUnknown;
      const int at = queue_.top().node;
      queue_.pop();
      table_.jump(move_.walker, at);
      if (move_.walker.done() == total_) {
        order_ = prefix_;
        append_path(at, order_);
        return Answer::kYes;
      }
      if (move_.rules.commits && at != 0 && nodes_[at].f <= nodes_[0].f) {
        commit(at);
        continue;
      }
      ++states_;
      ++n;
      expand(at);
    }
    return Answer::kUnknown;
  }

  int64_t work() const override { return work_ + move_.walker.work(); }

 private:
  struct Node {
    Bytes f;
    int parent, move;  // number of the move that led here
  };
  struct Entry {
    Bytes f;
    int done, node;
    bool operator<(const Entry& other) const {  // std::priority_queue pops the greatest
      if (f != other.f) return f > other.f;
      if (done != other.done) return done < other.done;
      return node > other.node;
    }
  };

  // A child state, kept until it is clear that none of its siblings is a safe move.
  struct Child {
    Bytes f;
    uint64_t hash;
    size_t words;
    int first_word, length, done, move;
  };

  // Makes the walker's state the root and forgets the rest.
  void plant(Bytes f) {
    nodes_.clear();
    table_.clear();
    queue_ = {};
    insert(f, -1, -1);
  }

  void insert(Bytes f, int parent, int move) {
    const CanonicalKey key = canonical(nullptr);
    note(table_.insert(key.hash, key.first, key.words, key.length), f, move_.walker.done(), parent, move);
  }

  struct CanonicalKey {
    uint64_t hash;
    int first, length;
    const Word* words;
  };

  // The walker's state, or the image that stands for it. `image`: what each macro was mapped to.
  CanonicalKey canonical(std::vector<int>* image) {
    const Walker& walker = move_.walker;
    if (!symmetry_ || nodes_.empty()) {
      const auto [first, last] = walker.extent();
      return {walker.hash(), first, last - first, walker.words() + first};
    }
    canonical_.assign(walker.words());
    work_ += symmetry_->canonicalise(canonical_, image);
    uint64_t hash = 0;
    for (int w = 0; w < canonical_.words(); ++w) hash = (hash ^ canonical_.data()[w]) * kGolden ^ (hash >> 31);
    const auto [first, last] = bits::extent(canonical_.data(), canonical_.words());
    return {hash ^ (hash >> 29), first, last - first, canonical_.data() + first};
  }

  void note(std::pair<int, bool> known, Bytes f, int done, int parent, int move) {
    const auto [number, fresh] = known;
    if (!fresh) return;
    nodes_.push_back({f, parent, move});
    queue_.push({f, done, number});
    memory_ = std::max(memory_, table_.memory() + nodes_.capacity() * sizeof(Node) + queue_.size() * sizeof(Entry));
  }

  void expand(int at) {
    const Bytes f = nodes_[at].f;
    next_ = std::min(next_, move_.look_around(f));
    children_.clear();
    child_words_.clear();
    for (size_t k = 0; k < move_.outcomes.size(); ++k) {
      if (f + move_.outcomes[k].hill > move_.budget) continue;
      const Bytes after = move_.make_move(f, k);
      if (move_.is_safe(f, after)) {
        insert(after, at, static_cast<int>(k));
        move_.take_back_move();
        return;
      }
      const CanonicalKey key = canonical(nullptr);
      table_.prefetch(key.hash);
      children_.push_back(
          {after, key.hash, child_words_.size(), key.first, key.length, move_.walker.done(), static_cast<int>(k)});
      child_words_.insert(child_words_.end(), key.words, key.words + key.length);
      move_.take_back_move();
    }
    for (const Child& c : children_)
      note(table_.insert(c.hash, c.first_word, &child_words_[c.words], c.length), c.f, c.done, at, c.move);
  }

  // Appends the macros that ran from the root to a node, in order. With symmetries, a node stands for the state that
  // was really reached: `back` takes its macros to those.
  void append_path(int at, std::vector<int>& out) {
    std::vector<int> path, back(total_), image;
    std::iota(back.begin(), back.end(), 0);
    for (int i = at; nodes_[i].parent >= 0; i = nodes_[i].parent) path.push_back(i);
    for (auto i = path.rbegin(); i != path.rend(); ++i) {
      table_.jump(move_.walker, nodes_[*i].parent);
      const Bytes f = nodes_[nodes_[*i].parent].f;
      move_.look_around(f);
      move_.make_move(f, nodes_[*i].move);
      for (int m : move_.ran) out.push_back(back[m]);
      if (!symmetry_) continue;
      canonical(&image);
      std::vector<int> next(total_);
      for (int m = 0; m < total_; ++m) next[image[m]] = back[m];
      back = std::move(next);
    }
  }

  void commit(int at) {
    std::vector<int> path;
    append_path(at, path);
    table_.jump(move_.walker, 0);
    const Bytes f = repair(move_.walker, nodes_[0].f, nodes_[at].f, path);
    for (int m : path) move_.walker.run(m);
    prefix_.insert(prefix_.end(), path.begin(), path.end());
    plant(move_.close_all(f, prefix_));
  }

  const int total_;
  const size_t limit_;
  const Symmetry* const symmetry_;
  Mover move_;
  StateTable table_;
  std::vector<Node> nodes_;  // numbered as in the table; 0 is the root
  std::priority_queue<Entry> queue_;
  std::vector<int> prefix_;  // what ran before the root
  std::vector<Child> children_;
  std::vector<Word> child_words_;
  BitSet canonical_;
  int64_t work_ = 0;  // of symmetries
};

}  // namespace

std::unique_ptr<Search> best_first(const Problem& problem, Bytes budget, const SearchRules& rules, size_t memory_bytes,
                                   const Symmetry* symmetry) {
  return std::make_unique<BestFirst>(problem, budget, rules, memory_bytes,
                                     symmetry && !symmetry->empty() ? symmetry : nullptr);
}

}  // namespace tide
