// A cut model in another order of its ops, and who has to run before whom.
#pragma once

#include <vector>

#include "cut/region.h"

namespace tide {

// Puts the op that stood at order[k] at position k; what hangs on positions follows.
void reorder(CutModel& model, const std::vector<int>& order);

// Ops that must run before others, by position.
class Precedence {
 public:
  explicit Precedence(std::vector<std::vector<int>> before);

  const std::vector<int>& before(int op) const { return before_[op]; }
  const std::vector<int>& after(int op) const { return after_[op]; }
  void reorder(const std::vector<int>& order);

  // The order in which ops `together` follow one another, as near as can be to position `at`: what they need comes
  // before them, what needs them behind, all else stays on its side. They are convex: nothing has to run between them.
  std::vector<int> gathered(const std::vector<int>& together, int at) const;

 private:
  void derive();

  std::vector<std::vector<int>> before_, after_;
};

}  // namespace tide
