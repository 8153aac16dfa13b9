// Whether buffers fit under a height: branch and bound over canonical placements.
//
// Of all placements that fit take one with the least sum of offsets. In it each item lies at 0, at its fixed offset, or
// right on top of another (`up`), rounded up to its alignment. So it is found by placing items in order of ascending
// key, each as low as what is placed already allows:
//
//     H -------------------------------          state: what is placed, and the key F of the last one placed
//                 .---.                          p_i: the least offset of item i on top of what is placed
//          .-----.| 4 |                          p_i below F: i is **stuck**, something that is still to come has to
//       .--'  3  ||   |.--------.                   lift it
//       | 1 |-----'---'|   2    |                else i may be next
//     0 -------------------------------> time
//
// The family is that of minimalloc (Moffitt, "MiniMalloc", ASPLOS 2023); docs/proofs.md proves each rule for what we
// place: rigid groups, pairs with a distance, alignments, fixed offsets, buffers kept apart.
#pragma once

#include <functional>
#include <string>

#include "place/items.h"
#include "place/rules.h"

namespace tide::place {

// What cuts the search down; each may be left out, the answers stay.
struct Pruning {
  bool floors = true;     // what is left at a section fits above the least offset it can have
  bool releases = true;   // the same for each part of it that begins higher
  bool support = true;    // what is stuck lies on something to come
  bool dominance = true;  // nothing is left out that would fit below all that is to come
  bool split = true;      // what time separates is placed separately
  bool twins = true;      // equal buffers in one order
  bool stacks = true;     // buffers of equal life that lie one on another, too
  bool memo = true;       // what failed once is not tried again

  // By the name above; null if there is none.
  bool* named(const std::string& name);
};

enum class Fit { kFits, kNever, kUnknown };

struct Fitted {
  Fit fit = Fit::kUnknown;
  std::vector<Bytes> offsets;  // where it fits: per buffer
  int most = 0;                // items that were placed at once
  int64_t nodes = 0, work = 0;
};

// Called now and then; whether to stop.
using Stop = std::function<bool()>;

// An order of the buffers, which decides among items of equal key: by a greedy's key, or with a seed one near it.
std::vector<int> ranking(const Problem& problem, Key key, uint64_t seed);

// Whether the buffers fit under `capacity`, with at most `work` units of work: a unit is a look at one item or a few
// sections, ten nanoseconds or so. Never `kNever` unless proved.
//
// A search that went wrong early rarely comes back, and another order goes wrong elsewhere: many short searches find
// what a long one does not. One that `leaps` goes back at once past whatever raised nothing that a failure is about, in
// the manner of conflict-directed backjumping. Not everything that has a part in a failure is counted, so a search that
// leapt proves nothing.
Fitted fits(const Problem& problem, const Items& items, const std::vector<int>& order, bool leaps, const Pruning& on,
            Bytes capacity, int64_t work, const Stop& stop);

}  // namespace tide::place
