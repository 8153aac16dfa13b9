// Packing: rules tried in turn, orders repaired, each on every stretch of time that no buffer crosses.
#pragma once

#include <string>
#include <vector>

#include "place/placer.h"
#include "place/rules.h"

namespace tide::place {

// Bytes that a placement takes.
Bytes height_of(const Problem& problem, const std::vector<Bytes>& offsets);

// Offsets by index. `rule` is the index of the one that decided the height, -1 if there is nothing to place.
struct Packing {
  std::vector<Bytes> offsets;
  Bytes height = 0;
  Bytes bound = 0;
  int rule = -1;
  int64_t stretches = 0, pairs = 0, passes = 0, work = 0;
};

// The lowest of the rules, in as many passes as `work` (nanoseconds or so) allows, at least one. A stretch is done once
// its height is at the load bound of the whole, or below the height of another stretch.
Packing portfolio(const Problem& problem, const std::vector<Rule>& rules, int64_t work);

// Squeaky wheel (Joslin and Clements, JAIR 10, 1999): place by a rule's order, then place earlier what ended above the
// bound, and again. After its first pass a rule goes on in two lines: the blamed go to the front, or a quarter of the
// way there. All lines of all rules advance in turn.
struct Wheel {
  int rounds;
  int64_t work;  // nanoseconds or so
};
Packing squeaky(const Problem& problem, const std::vector<Rule>& rules, const Wheel& wheel);

// Segment after segment from low point to low point: each by the squeaky wheel, with what crosses into it where it
// lies. If that ends above the goal, together with the 1, 3, 7 segments before it. For each length of segments, in
// buffers, in time and in time reversed. What the first rule gives, if there is not enough work for one sweep.
struct Sweep {
  Wheel wheel;   // for each window
  int64_t work;  // all together
  std::vector<int> segments;
  bool recall = true;  // whether a window that was asked before is answered from memory
};
Packing sweep(const Problem& problem, const std::vector<Rule>& rules, const Sweep& how);

// Blamed buffers first, or a quarter of the way and one past the others; else each in the order they had.
std::vector<int> to_front(const std::vector<int>& order, const std::vector<char>& blamed);
std::vector<int> a_quarter_forward(const std::vector<int>& order, const std::vector<char>& blamed);

// Indices of the buffers of each stretch of time that no buffer crosses, ascending; what takes no room is in none.
// Stretches that buffers kept apart connect are one.
std::vector<std::vector<int>> split(const Problem& problem);

}  // namespace tide::place
