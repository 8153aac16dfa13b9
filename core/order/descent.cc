#include "order/descent.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace tide {

namespace {

constexpr int kWidths[] = {1, 4, 32};
constexpr int64_t kMostWidened = 200'000;  // a wider beam than one is not tried if width times macros is more
constexpr int kCutsAtFirst = 64, kCutsBetween = 16;
constexpr int64_t kSavedPart = 4;         // one in so many states of a slice is put aside
constexpr int64_t kAimedPart = 4;         // a beam of aim() may take so many slices
constexpr int kDrawnWidth = 256;          // of the beams of redraw()
constexpr int64_t kDrawnPart = 4;         // one in so many states of a slice is put aside for them
constexpr uint64_t kDrawnFromTheEnd = 4;  // one in so many of them
constexpr uint64_t kDraws = 4;            // beams that try a budget, the first without, the others with random ties
constexpr uint64_t kDrawsFromTheEnd = 3;  // one in so many, the first among them

}  // namespace

void Descent::approach() {
  const int64_t asked = incumbent_.options().most_states;
  const int64_t most = asked > 0 ? std::min(asked, kMostWidened) : kMostWidened;
  int64_t narrow = 0;  // work of the narrowest beam
  for (int width : kWidths) {
    if (width > 1 && int64_t{width} * reduced_.forward.n > most) break;
    if (incumbent_.options().most_work > 0 && narrow * width > incumbent_.options().most_work) break;
    widen(width);
    if (width == 1) narrow = incumbent_.result.work;
    if (incumbent_.finished()) return;
    incumbent_.raise_bound(width == 1 ? kCutsAtFirst : kCutsBetween);
    if (incumbent_.finished()) return;
  }
}

void Descent::widen(int width) {
  for (const bool from_the_end : {true, false}) {
    if (incumbent_.finished()) return;
    take_up({from_the_end, beam(reduced_.problem(from_the_end), width, incumbent_.lower_bound(), incumbent_.peak(),
                                incumbent_.options().seed, [this] { return incumbent_.out_of_time(); })});
  }
}

void Descent::aim(int64_t slice) {
  if (int64_t{aimed_} * reduced_.forward.n > kAimedPart * slice) return;
  while (!incumbent_.finished()) {
    const Bytes before = incumbent_.peak();
    take_up({true, beam(reduced_.reversed, aimed_, before - incumbent_.unit(), before, 0,
                        [this] { return incumbent_.out_of_time(); })});
    if (incumbent_.peak() == before) break;
  }
  aimed_ *= 2;
}

void Descent::descend(int64_t slice, const std::function<bool()>& stop) {
  saved_ += slice / kSavedPart;
  if (saved_ <= int64_t{2} * width_ * reduced_.forward.n) return;
  try_below(std::exchange(saved_, 0), stop);
  width_ *= 2;
}

void Descent::redraw(int64_t slice, const std::function<bool()>& stop) {
  saved_for_draws_ += slice / kDrawnPart;
  if (saved_for_draws_ < int64_t{kDrawnWidth} * reduced_.forward.n) return;
  const Bytes unit = incumbent_.unit(), bound = incumbent_.lower_bound();
  Bytes best = incumbent_.peak();
  for (const Found& found : found_)
    if (!found.beam.macros.empty()) best = std::min(best, found.beam.peak);
  while (saved_for_draws_ > 0 && best > bound && !stop()) {
    const bool from_the_end = ++draws_ % kDrawnFromTheEnd == 0;
    const uint64_t seed = mix(incumbent_.options().seed + draws_ * kGolden);
    BeamResult result = beam(reduced_.problem(from_the_end), kDrawnWidth, best - unit, best, seed, stop);
    saved_for_draws_ -= result.states + 1;
    if (!result.macros.empty()) best = result.peak;
    found_.push_back({from_the_end, std::move(result)});
  }
}

// Beams that aim at a budget below the best: up to it all peaks are equal, so the least f decides. Ties broken at
// random find what ties broken by number miss. Big steps first, as many as `states` allow.
void Descent::try_below(int64_t states, const std::function<bool()>& stop) {
  const Bytes unit = incumbent_.unit(), bound = incumbent_.lower_bound();
  const auto half = [unit](Bytes bytes) { return std::max(unit, bytes / 2 / unit * unit); };
  Bytes best = incumbent_.peak();
  Bytes step = half(best - bound);
  while (states > 0 && best - step >= bound && !stop()) {
    bool lower = false;
    for (uint64_t draw = 0; draw < kDraws && !lower; ++draw) {
      const bool from_the_end = draw % kDrawsFromTheEnd == 0;
      const Bytes budget = best - step;
      const uint64_t seed = draw == 0 ? 0 : incumbent_.options().seed + width_ + draw;
      BeamResult result = beam(reduced_.problem(from_the_end), width_, budget, budget + 1, seed, stop);
      states -= result.states + 1;
      lower = !result.macros.empty();
      if (lower) best = result.peak;
      found_.push_back({from_the_end, std::move(result)});
    }
    if (!lower && step == unit) break;
    if (!lower || best - step < bound) step = half(step);
  }
}

void Descent::take_up() {
  for (const Found& found : std::exchange(found_, {})) take_up(found);
}

void Descent::take_up(const Found& found) {
  incumbent_.result.beam_states += found.beam.states;
  incumbent_.result.work += found.beam.work;
  if (!found.beam.macros.empty()) incumbent_.offer(reduced_.order(found.from_the_end, found.beam.macros));
}

}  // namespace tide
