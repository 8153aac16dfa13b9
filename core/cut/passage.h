// Whether there is a way through an order below a limit, and other orders where there is none.
//
// Positions are reached one by one: by an op that runs whole, or by any region of neighbours that ends there. Where
// nothing goes on, the ops that have to run together lie apart. So sets of ops are grown from what is live there
// (`Growth`), made neighbours, and cut; that which gets furthest stays, and the search goes on behind it.
#pragma once

#include <vector>

#include "cut/grown.h"
#include "cut/intervals.h"
#include "cut/reorder.h"

namespace tide {

class Passage {
 public:
  // `coarse`: regions begin and end only where less is live than beside.
  Passage(CutModel& model, Precedence& precedence, Intervals& intervals, const PathOptions& options);

  // Looks for a way below a limit; with `gather` in other orders, too, of which the last one stays.
  bool pass(Bytes limit, bool coarse, bool gather);
  // The regions of the way, in order.
  std::vector<PathRegion> regions() const;
  // The order of the model's ops now, in positions of the first one.
  const std::vector<int>& order() const { return order_; }
  // Goes back to an order, in positions of the first one.
  void restore(const std::vector<int>& order);
  bool stopped() const { return stopped_; }
  // Whether less is live here than before the op before or behind the op behind.
  bool valley(int at) const;
  // Whether less is live here than anywhere near.
  bool basin(int at) const;
  // The first position at which a region that ends at another one may begin.
  int first(int end) const;

 private:
  struct Attempt {
    std::vector<int> order;
    PathRegion region;
    int reached = -1;  // position
  };

  // A way to a position: what is there in pieces, the region that reaches it (stripes 1: an op), and which of the ways
  // to where that begins.
  struct Reached {
    Pieces pieces;
    PathRegion by;
    int from = 0;
  };

  int reach(Bytes limit, bool coarse, int from);
  void step(int end, Bytes limit, bool coarse);
  void add(int end, Pieces pieces, const PathRegion& by, int from);
  void cut(int begin, int end, Bytes limit);
  int singles(int from, int end, Bytes limit, Pieces& pieces) const;
  const PathRegion* fixed_around(int at) const;
  int gather(Bytes limit, int at);
  void try_set(const GrownSet& set, Bytes limit, int at, Attempt& best);
  std::vector<PathRegion> cut_set(const GrownSet& set, int begin, Bytes limit, const Pieces& before);
  bool keeps_fixed(const std::vector<int>& order) const;
  std::vector<int> live_tensors(int at) const;
  void apply(const std::vector<int>& order);
  bool stop();

  CutModel& m_;
  Precedence& precedence_;
  Intervals& intervals_;
  const PathOptions& o_;
  const int n_;
  std::vector<int> order_;
  std::vector<std::vector<Reached>> ways_;  // to each position, each with other pieces
  std::vector<PathRegion> fixed_;           // regions of gathered ops
  std::vector<char> taken_;                 // whether an op is in one of these
  int64_t tried_ = 0;
  bool stopped_ = false;
};

}  // namespace tide
