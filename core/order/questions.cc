#include "order/questions.h"

#include <algorithm>
#include <utility>

namespace tide {

void Questions::ask(int64_t work, const std::function<bool()>& stop) {
  const Bytes unit = incumbent_.unit(), below = incumbent_.just_below();
  Bytes low = incumbent_.lower_bound() / unit * unit;
  if (question_ && (question_->budget() > below || question_->budget() < low)) question_.reset();
  while (work > 0 && !stop()) {
    if (!question_) {
      const bool first = asked_below_ > below;
      const Bytes high = std::min(standing_, below);
      const Bytes budget = first ? below : low + (high - low) / 2 / unit * unit;
      if (!first && budget >= high) return;
      question_ = std::make_unique<Propagation>(incumbent_.model(), budget, incumbent_.options().switches.fusion,
                                                incumbent_.options().reach_memory_bytes);
    }
    const int64_t before = question_->work();
    const bool done = question_->run(work, stop);
    work -= question_->work() - before;
    if (!done) return;
    if (question_->budget() == below) asked_below_ = below;
    if (question_->refuted())
      low = question_->budget() + unit;
    else
      standing_ = std::min(standing_, question_->budget());
    answers_.push_back(std::move(question_));
    if (low > below) return;
  }
}

void Questions::take_up(Reductions& reductions) {
  for (const auto& answer : std::exchange(answers_, {})) take_up(*answer, reductions);
}

void Questions::take_up(const Propagation& answer, Reductions& reductions) {
  incumbent_.add_cuts(answer.cuts());
  if (answer.refuted()) {
    incumbent_.refute(answer.budget(), answer.budget(), Direction::kPropagation, 0);
  } else if (answer.budget() == asked_below_ && reductions.wants(asked_below_)) {
    reductions.restrict(answer.restricted(), answer.budget(), [this] { return incumbent_.out_of_time(); });
    incumbent_.result.symmetries = reductions.symmetries();
  }
}

}  // namespace tide
