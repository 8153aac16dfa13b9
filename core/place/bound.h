// Bytes that no placement beats.
#pragma once

#include "place/placer.h"

namespace tide::place {

// At the same steps, [start, end), two pieces that may share up to `saving` bytes.
struct Overlap {
  int64_t start, end;
  int lower, upper;
  Bytes saving;
};

// What the pairs of a problem allow: couples of pieces, with a saving above 0.
std::vector<Overlap> overlaps_of(const Problem& problem);

// The most that is live at once, or the end of the largest or of a fixed buffer.
//
// Bytes that pairs may share at a step count once at most: of the pieces that are there, each adds what it cannot share
// with those before it, in the better of two orders. A buffer that is not there, but is kept apart from all that are,
// adds its largest piece. Rounded up to the alignment if all buffers have the same one and sizes that are multiples of
// it, for then so is every height.
Bytes load_bound(const Problem& problem);

}  // namespace tide::place
