// The search problem: chains of ops that run without interruption ("macros"), compiled to short programs.
//
// Running macro m in state D (a downset of macros) has a hill (the largest footprint on the way) and a change of
// the transient footprint f. Both depend on D only through how many of the other macros that touch a storage have
// run: `count`. A macro's program walks through its ops once:
//
//   kBegin s    the storage comes to life here, unless another macro ran that touches it
//   kFinish s   it is last touched here, and dies if every other macro that touches it ran
//   kSave s     the next hill is lower by `bytes` if s dies there (reversed: comes to life there)
//   kHill       footprint relative to f(D): `bytes` plus what began less what finished; a kHill without kSave
//               that another one always covers is dropped
//
// The reversed problem runs the same macros from the end: begin and finish change places, and so do f(D) and
// f(D+m) (docs/proofs.md, Theorem 2). Both are instances of this one type.
#pragma once

#include <vector>

#include "base/model.h"
#include "base/reach.h"

namespace tide {

struct Item {
  enum Kind : uint8_t { kBegin, kFinish, kSave, kHill };
  Kind kind;
  int storage;  // index in Problem::size, -1: for certain
  Bytes bytes;
};

struct Outcome {
  Bytes hill;    // largest footprint on the way, relative to f before
  Bytes change;  // f after less f before
};

// Compressed rows of integers.
struct Rows {
  std::vector<int> begin{0}, items;
  void close() { begin.push_back(static_cast<int>(items.size())); }
  const int* first(int row) const { return items.data() + begin[row]; }
  const int* last(int row) const { return items.data() + begin[row + 1]; }
  int length(int row) const { return begin[row + 1] - begin[row]; }
};

struct Problem {
  int n = 0;
  bool reversed = false;
  std::vector<std::vector<int>> chains;  // per macro, its ops in the order they run in this direction
  Rows preds, succs;
  Rows touched;                // per macro, the shared storages it touches
  Rows users;                  // per shared storage, the macros that touch it
  std::vector<Bytes> size;     // per shared storage
  std::vector<char> begins;    // per shared storage, whether who begins it depends on the state
  std::vector<char> finishes;  // likewise who finishes it
  std::vector<Item> items;     // all programs
  std::vector<int> program;    // per macro, where its program starts in items
  std::vector<Bytes> fixed;    // per macro, the part of its change that no state alters
  std::vector<int> last_op;    // per macro, where in items those of its last op start
  Bytes start = 0;             // f of the empty state

  // What running m does when `count(s)` of the macros that touch shared storage s have run, m not among them.
  template <class Count>
  Outcome run(int m, Count&& count) const {
    Bytes live = 0, save = 0, hill = 0;
    bool first = true;
    for (int i = program[m]; i < program[m + 1]; ++i) {
      const Item& item = items[i];
      switch (item.kind) {
        case Item::kBegin:
          if (count(item.storage) == 0) live += size[item.storage];
          break;
        case Item::kFinish:
          if (count(item.storage) == users.length(item.storage) - 1) live -= size[item.storage];
          break;
        case Item::kSave:
          if (item.bytes > save &&
              (item.storage < 0 || count(item.storage) == (reversed ? 0 : users.length(item.storage) - 1)))
            save = item.bytes;
          break;
        case Item::kHill:
          if (first || live + item.bytes - save > hill) hill = live + item.bytes - save;
          first = false;
          save = 0;
          break;
      }
    }
    return {hill, live + fixed[m]};
  }
};

// Chains of ops, topologically numbered: chain i's ops run one right after the other.
using Chains = std::vector<std::vector<int>>;

Chains single_ops(const Model& model);
// Predecessors of each chain among the chains.
std::vector<std::vector<int>> chain_preds(const Model& model, const Chains& chains);
Problem compile(const Model& model, const Chains& chains, const Reach& reach, bool reversed);

}  // namespace tide
