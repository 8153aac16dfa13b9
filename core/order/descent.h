// Beams: orders before anything is searched, and wider ones between the turns of the searches.
#pragma once

#include <functional>
#include <vector>

#include "order/beam.h"
#include "order/incumbent.h"
#include "order/reduced.h"

namespace tide {

class Descent {
 public:
  Descent(const Reduced& reduced, Incumbent& incumbent) : reduced_(reduced), incumbent_(incumbent) {}

  // Beams in both directions that aim at the lower bound, each wider than the one before, with cuts in between.
  void approach();
  // Beams from the end that aim just below the best, as long as they get there, once a slice of states allows for
  // their width. Where one does, it often is the optimum: much that the beams of approach(), which aim at the lower
  // bound, throw away is within this budget.
  void aim(int64_t slice);
  // Puts a part of a slice of states aside, and where there are enough, spends them on wider beams. Only reads what the
  // thread that takes up reads.
  void descend(int64_t slice, const std::function<bool()>& stop);
  // Beams of one width that aim just below the best, each with ties broken in another way: where most orders of least f
  // lead astray, many draws find what no wider beam does.
  void redraw(int64_t slice, const std::function<bool()>& stop);
  // Offers what descend() and redraw() found.
  void take_up();

 private:
  struct Found {
    bool from_the_end;
    BeamResult beam;
  };

  void widen(int width);
  void try_below(int64_t states, const std::function<bool()>& stop);
  void take_up(const Found& found);

  const Reduced& reduced_;
  Incumbent& incumbent_;
  int aimed_ = 64;     // width of the next beams of aim()
  int width_ = 128;    // and of descend()
  int64_t saved_ = 0;  // states put aside for these
  int64_t saved_for_draws_ = 0;
  uint64_t draws_ = 0;  // beams of redraw() so far
  std::vector<Found> found_;
};

}  // namespace tide
