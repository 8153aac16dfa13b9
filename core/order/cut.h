// Lower bounds by minimum cut, with the flow that proves them.
//
// In every order, when op v runs, the ops that ran before it form a downset D with anc(v) inside and desc(v)
// outside. The footprint at v is a submodular function of D, so its least value over all such D is a minimum
// cut:
//
//      anc(v), v, start                                        desc(v), v, end
//            o-----> [storage: first touched] --size--> [not yet last touched] ----->o
//         source            ^                                   |                  sink
//                           +--- op that may or may not --------+
//                                have run: D's side of the cut
//
// An op that ran (source side) drags its predecessors with it by an arc of infinite capacity. An op v that may
// overwrite one input pays for the overwritten bytes only while another op still needs them; with several
// inputs to choose from, the bound is the least of the cases.
#pragma once

#include <vector>

#include "base/model.h"

namespace tide {

struct CutArc {
  int storage;  // -1: a precedence arc
  int from;     // -1: the start
  int to;       // -1: the end
  Bytes bytes;
};

struct CutCase {
  int storage = -1;  // the storage overwritten in this case; -1: none may be
  Bytes value = 0;
  std::vector<int> downset;  // what runs before v in the cheapest order, ascending
  std::vector<CutArc> flow;
};

struct Cut {
  Bytes value = 0;  // least over the cases
  std::vector<CutCase> cases;
};

class CutBound {
 public:
  explicit CutBound(const Model& model);
  // Footprint of op v that no order beats. `with_proof` fills in downsets and flows.
  Cut at(int v, bool with_proof);

 private:
  CutCase solve(int v, int overwritten, Bytes saving, bool with_proof);

  const Model& model_;
  std::vector<char> side_;  // per op: 0 free, 1 before v, 2 after v, 3 v itself
  std::vector<int> node_;   // per op: node in the network, -1 if none
};

}  // namespace tide
