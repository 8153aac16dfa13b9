// Propagation between the turns of the searches: what follows from a budget.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "order/incumbent.h"
#include "order/propagate.h"
#include "order/reduced.h"

namespace tide {

class Questions {
 public:
  explicit Questions(Incumbent& incumbent) : incumbent_(incumbent) {}

  // Propagation is asked what follows from the budget just below the best; once that is known, about the middle of
  // what it has left open, and so on. Only reads what the thread that takes up reads.
  void ask(int64_t work, const std::function<bool()>& stop);
  // Whether something was asked, or is being asked.
  bool any() const { return question_ || !answers_.empty(); }
  // Raises the bound by what was refuted, and restricts the model to what the budget below the best leaves of it.
  void take_up(Reductions& reductions);

 private:
  void take_up(const Propagation& answer, Reductions& reductions);

  Incumbent& incumbent_;
  std::unique_ptr<Propagation> question_;              // being answered
  std::vector<std::unique_ptr<Propagation>> answers_;  // since take_up()
  Bytes asked_below_ = kAnyBudget;                     // least budget just below the best that was asked about
  Bytes standing_ = kAnyBudget;                        // least budget that could not be refuted
};

}  // namespace tide
