// Placing buffers one after another: the kernel that every greedy allocator shares.
//
// A buffer is a rigid group of pieces, rectangles in the plane of steps and bytes. A placed piece with bytes
// [lo, hi) that is there at the same time as a piece [low, high) of the buffer to place forbids that buffer the
// offsets between lo - high and hi - low, both excluded. What these open intervals leave are gaps:
//
//     offset 0 ...   (  forbidden  )      gap       (  forbidden  )   ... and everything above
//                                  |<-- slack -->|
//
// First fit takes the lowest allowed offset. Best fit takes the low end of the gap with least slack, which for
// plain rectangles is the tightest hole; above everything only if there is no gap.
//
// Two ways to find the placed pieces in the way, with equal results. Few pairs of pieces that meet: a list of
// neighbours per piece. Crowds: a segment tree over time, whose nodes hold runs of occupied bytes (`Occupancy`).
// Pairs that may overlap and buffers kept apart are for the lists alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/model.h"

namespace tide::place {

// There at steps `start` to `end - 1`; its bytes are [low, high) above its buffer's offset.
struct Piece {
  int64_t start, end;
  Bytes low, high;
};

// Pieces [first, last) of the problem; those there at the same step share no byte. `fixed`: where it has to lie, or -1.
struct Buffer {
  Bytes size;
  Bytes alignment;
  Bytes fixed;
  int first, last;
};

// Two buffers that may overlap where both are there at once, as long as `upper` lies `distance` or more above `lower`:
// an op may write its output over an input that dies, behind what it has read. In place is 0.
struct Pair {
  int lower, upper;
  Bytes distance;
};

// What is to be placed. A buffer without pieces takes no room. Those of an entry of `apart` share no byte, even if they
// are never there at the same time.
struct Problem {
  std::vector<Buffer> buffers;
  std::vector<Piece> pieces;
  std::vector<Pair> pairs;  // no two buffers twice, none of them in `apart`
  std::vector<std::pair<int, int>> apart;

  int64_t start(int i) const {
    int64_t from = empty(i) ? 0 : pieces[buffers[i].first].start;
    for (int k = buffers[i].first; k < buffers[i].last; ++k) from = std::min(from, pieces[k].start);
    return from;
  }
  int64_t end(int i) const {
    int64_t to = empty(i) ? 0 : pieces[buffers[i].first].end;
    for (int k = buffers[i].first; k < buffers[i].last; ++k) to = std::max(to, pieces[k].end);
    return to;
  }
  bool empty(int i) const { return buffers[i].first == buffers[i].last; }
};

// What a pair, or two buffers kept apart, change: `other` forbids the offsets between its own plus `low` and its own
// plus `high`, both excluded.
struct Tie {
  int other;
  Bytes low, high;
};

// By buffer, its ties: all that is forbidden between two buffers of a pair, and for two that are kept apart.
std::vector<std::vector<Tie>> ties_of(const Problem& problem);

// The two buffers of each pair, the one of lower index first; ascending.
std::vector<std::pair<int, int>> paired_buffers(const Problem& problem);

// The buffers `members` of a problem, by themselves, with the pairs among them.
Problem part_of(const Problem& problem, const std::vector<int>& members);

// Index of the first buffer whose fixed offset puts it over another fixed one before it; -1 if there is none.
int clash(const Problem& problem);

// Bytes [lo, hi).
struct Run {
  Bytes lo, hi;
};
using Runs = std::vector<Run>;  // ascending, disjoint, not touching

// Which bytes are taken when: a segment tree over sections of time.
//
// A span of sections is a union of at most 2 log2 n whole nodes. `any` of a node: bytes that something takes
// somewhere in its sections. `whole`: what takes them throughout, for spans that the node is one of. What a span
// [from, to) meets is in `any` of its own nodes and `whole` of the nodes above those. Runs grow together, so the
// lists stay short however many buffers there are.
class Occupancy {
 public:
  explicit Occupancy(int sections);
  void clear();
  void add(int from, int to, Run run);
  // Appends the lists that hold all runs which the span meets.
  void meet(int from, int to, std::vector<const Runs*>& lists) const;

 private:
  template <class Own, class Above>
  void visit(int from, int to, Own own, Above above) const;

  int leaves_;
  std::vector<Runs> any_, whole_;
};

enum class Kernel { kChoose, kLists, kTree };

// Places the buffers of a problem, any number of times.
class Placer {
 public:
  explicit Placer(const Problem& problem, Kernel kernel = Kernel::kChoose);

  // Offsets by index, in the order given, each index once; fixed buffers come first. False if a buffer would end at
  // `ceiling` or above (negative: no ceiling); the offsets are then not complete.
  bool place(const std::vector<int>& order, bool best_fit, Bytes ceiling, std::vector<Bytes>& offsets);

  int64_t pairs() const { return pairs_; }  // pieces of different buffers that are there at the same time
  int64_t cost() const { return cost_; }    // work of a pass, in nanoseconds or so, the same on every machine

 private:
  void list_neighbours(const std::vector<int>& by_start);
  void put(int i, Bytes at);
  Bytes lowest_by_lists(int i, bool best_fit);
  Bytes lowest_by_tree(const Buffer& b, bool best_fit);

  struct Cursor {
    const Run *at, *end;
    Bytes low, high;

    // Passes the runs that forbid nothing from `offset` on: by doubling strides, for they are many in a crowd.
    void pass(Bytes offset);
  };

  const Problem& problem_;
  std::vector<int> fixed_;
  std::vector<std::vector<Tie>> ties_;
  std::vector<Bytes> tied_;     // per buffer with ties, its offset; -1 before it is placed
  std::vector<int> from_, to_;  // per piece, its sections: sections begin where a piece does
  int64_t pairs_ = 0, cost_ = 0;
  bool lists_ = true;
  std::vector<int> near_, near_begin_;
  std::vector<Run> placed_;  // per piece; hi is 0 before it is placed
  Occupancy occupancy_;
  std::vector<Run> forbidden_;
  std::vector<const Runs*> met_;
  std::vector<Cursor> cursors_;
};

}  // namespace tide::place
