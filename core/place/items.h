// A problem of placing as the exact search takes it: items that conflict, sections of time, whole units instead of
// bytes.
//
// Item i is **above** item j if x_i >= x_j + up(j, i). Two items conflict if one has to be above the other. A pair of
// plain rectangles conflicts where both are there at the same time, up(j, i) is the size of j; rigid groups, pairs with
// a distance and buffers kept apart change `up` only. Where two rigid groups interlock, so that there is room for one
// between pieces of the other, that room is given up: such items are not `exact`, and a search of them finds
// placements but proves nothing.
//
// The search places items by ascending **key** x_i + shift_i, of equal keys by ascending rank. `shift` is such that
// whatever is above something has the larger key: up(j, i) + shift_i >= shift_j. It is 0 for all but for groups with
// an overhang. Where that is an equality, j has to have the lower rank.
#pragma once

#include <vector>

#include "place/placer.h"

namespace tide::place {

struct Items {
  // Of an item: `other` is above it from `up` above its offset on, and it is above `other` from `down` above that
  // one's.
  struct Conflict {
    int other;
    Bytes up, down;
  };
  // There in sections [from, to), from `low` above its item's offset on, `height` high.
  struct Block {
    int item;
    int from, to;
    Bytes low, height;
  };
  // Two blocks that may share up to `saving` in sections [from, to).
  struct Shared {
    int other;
    int from, to;
    Bytes saving;
  };

  // Items are buffers; one without pieces is not in `members`. Bytes are divided by `unit`.
  explicit Items(const Problem& problem);

  int count() const { return static_cast<int>(size.size()); }

  Bytes unit = 1;
  bool exact = true;   // nothing was given up
  bool apart = false;  // conflicts may join items that are not there at the same time
  int sections = 0;
  std::vector<int> members;
  std::vector<Bytes> size, alignment, fixed, shift;
  std::vector<int> from, to;     // sections from the first to after the last
  std::vector<int> first_block;  // of item i: up to that of item i + 1
  std::vector<Block> blocks;
  std::vector<std::vector<Conflict>> conflicts;
  std::vector<std::vector<Shared>> shared;
  std::vector<int> twin;                    // an item just like it, of which it is the next; -1
  std::vector<int> life;                    // the same for plain items that are there at the same time; -1
  std::vector<std::pair<int, int>> before;  // the first has to have the lower rank
};

}  // namespace tide::place
