// Regions grown by data flow: who has to be cut with a tensor so that it is never there whole.
//
// From a tensor and one of its dimensions: the op that makes it, all that read it, and whatever lies on a path between
// them. Then, tensor by tensor of the edge, the largest first: the other readers of what the set makes, or the maker of
// what it reads in parts and all who read that, too. Each set is convex, so that its ops can be made neighbours in some
// order of all ops.
#pragma once

#include <vector>

#include "cut/region.h"
#include "cut/reorder.h"

namespace tide {

struct GrownSet {
  std::vector<int> ops;  // positions, ascending
  int axis;              // of the last
};

class Growth {
 public:
  // Sets have `longest` ops at the most, and none of those that are `taken`.
  Growth(const CutModel& model, const Precedence& precedence, const std::vector<char>& taken, int longest)
      : m_(model), precedence_(precedence), taken_(taken), longest_(longest), axes_(model.ops.size(), -1) {}

  // Sets from a dimension of a tensor, each within the next.
  std::vector<GrownSet> sets(int tensor, int dim);

 private:
  struct Edge {
    int tensor;
    bool behind;  // only its readers are taken in, else its maker, too
  };

  bool take(int op, int axis);
  bool take_readers(int tensor);
  bool take_maker(int tensor);
  bool fill();
  bool agree() const;
  std::vector<Edge> edges() const;
  bool extend(const Edge& edge);
  void forget(size_t members);
  bool read_by_members_only(int tensor) const;

  const CutModel& m_;
  const Precedence& precedence_;
  const std::vector<char>& taken_;
  const int longest_;
  std::vector<int> axes_, members_;
};

}  // namespace tide
