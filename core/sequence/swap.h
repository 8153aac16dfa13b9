// Swaps: a value that is live across the highest slot and not used there goes to a slow memory and comes back.
//
//     time          |--a--|--b--|--c--|-PEAK-|--d--|--e--|--r--|
//     stores              [ x out ]                                 S stands behind the first run that ends no earlier
//     loads                                   [ x in ]              L before the last one from which it is in time for
//     r line               a b c S PEAK d L e r
//
// Where there is not so much time before the peak, or behind it, ops wait. What a swap costs is what it adds to the
// time of the whole line, by its clock.
#pragma once

#include <functional>
#include <vector>

#include "sequence/timeline.h"

namespace tide {

struct Swap {
  int value = -1;             // -1: none
  int store = -1, load = -1;  // free slots; store -1: it was stored before
  double price = 0;
};

class Swapper {
 public:
  explicit Swapper(Timeline& line) : line_(line) {}

  // The swap of least price that frees something at the peak. `wear`: what a second of transfer is worth beside one of
  // the line; `blur`: what each price is multiplied by.
  Swap best(int peak, Bytes excess, double wear, const std::function<double()>& blur);
  void put(const Swap& swap);
  // Takes stores away whose copies nobody loads.
  void drop_stores();
  // A slot before which there was no free one; -1: none.
  int crowded() const { return crowded_; }

 private:
  struct Candidate {
    int value, source, last, next;
  };
  void gather(int peak);
  bool place(const Candidate& candidate, int peak, Swap& swap);
  bool between(int before, int& slot);

  Timeline& line_;
  int crowded_ = -1;
  Cost all_ = 0;
  std::vector<Timeline::Beat> beats_;
  std::vector<Candidate> candidates_;
};

}  // namespace tide
