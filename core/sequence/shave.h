// Peak shaving: runs are repeated so that less is live at the highest slot, until all is within a budget.
//
//        x made          peak           x read, and again         x is live across the peak and not used there: made
//   ------a----------------^-----------------r------r---          again right before r, with what that needs and is
//                                      b' a'                      not there any more (the chain b a), it leaves the
//                                                                 peak; all later readers take it from a'.
//
// Of all such chains, of each length, the one is taken whose time for each byte freed at the peak is least and that
// makes no slot higher than the peak was. Where values may be stored and loaded, a swap if that is cheaper (`swap.h`).
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "sequence/swap.h"
#include "sequence/timeline.h"

namespace tide {

class Shaver {
 public:
  Shaver(Timeline& line, uint64_t seed);

  // Repeats runs until the peak is within the budget. False if no chain helps, or more than `most` would be spent in
  // all; the line is then as far as it came. `noise`: how much prices are blurred, 0 for none.
  bool shave(Bytes budget, double noise, Cost most);
  // Takes repeated runs away, dearest first, where the peak stays within the budget.
  void tidy(Bytes budget);
  // So many times: moves a run of the line to another slot, if its readers allow it, the peak stays within the budget
  // and no op waits longer.
  void wander(Bytes budget, int times);
  // Takes stores away whose copies nobody loads.
  void drop_stores() { swapper_.drop_stores(); }
  // Puts a run in or takes one away, anywhere: for tests.
  void jolt();

  // Asked before each chain; if it says so, shaving ends as if no chain helped.
  std::function<bool()> stop;

  int64_t chains() const { return chains_; }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

 private:
  struct Candidate {
    double least;  // its price, if a run of the maker alone were enough
    double blur;
    int value, before;
  };
  struct Choice {
    double price = 0;
    int before = -1;  // of the chain; -1: the swap
    std::vector<int> chain;
    Swap swap;
    bool any() const { return before >= 0 || swap.value >= 0; }
  };
  void gather(int peak, Bytes excess, double noise);
  double blur(double noise);
  bool best(int peak, Bytes excess, double noise, Choice& choice);
  void wander_once(Bytes budget, Cost& cost);
  bool moved_well(Bytes budget, int from, int to, Cost& cost) const;
  bool calm(int from, int to) const;
  void chain_for(int op, int peak, int before, size_t length);
  void try_chain(const Candidate& candidate, int peak, Bytes excess, Choice& choice);
  void put_chain(int before, const std::vector<int>& chain);

  Timeline& line_;
  Swapper swapper_;
  std::mt19937_64 random_;
  int64_t chains_ = 0;
  int crowded_ = -1;   // a slot before which a chain found too few free ones
  bool worn_ = false;  // and a short chain, too
  std::vector<Candidate> candidates_;
  std::vector<int> chain_;
  std::vector<char> in_chain_;
  std::vector<int> wanted_;
};

}  // namespace tide
