#include "order/solve.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <limits>
#include <utility>

#include "order/descent.h"
#include "order/engines.h"
#include "order/incumbent.h"
#include "order/questions.h"
#include "order/reduced.h"

namespace tide {

namespace {

using Stop = std::function<bool()>;

constexpr int kCutsAtOnce = 64;  // in a row, before something else is tried
// Nodes that propagation may cut for each state of a slice. At first it takes a fifth of the time that the states take;
// in threaded slices twice that, and more where there are many macros: what it asks of each is then of its neighbours
// only, and refutes in a second what no search does in a minute, such as a scan unrolled in every layer.
constexpr int64_t kWorkPerState = 10, kLeastThreadedWork = 20, kMostThreadedWork = 120;
constexpr int64_t kMacrosPerWork = 6;
// Where work is limited: the states of a slice that is still worth a round; the nanoseconds of a state before any was
// expanded; and the work of a round, in halves of its leader's.
constexpr int64_t kLeastSlice = 16, kFirstWork = 10'000, kHalvesOfLeader = 3;
// Slices grow by 5/2 up to the longest, but not while searches on demand answer; from the threaded ones on, two threads
// share them.
constexpr int64_t kThreadedSlice = 30'000, kLongestSlice = 200'000;
// Symmetries are looked for, and searches from the start make moves on demand, once a slice is so many times the first.
constexpr int64_t kSlicesBeforeMore = 4;
// A gap is wide if it is more than one part in so many of the peak.
constexpr Bytes kWide = 4;

// Lets the engines, beams and propagation take turns, counted in states, until the bounds meet.
class Solver {
 public:
  explicit Solver(Incumbent& incumbent)
      : now_(incumbent),
        on_(incumbent.options().switches),
        reductions_(incumbent.model(), on_.fusion, incumbent.options().reach_memory_bytes),
        descent_(reductions_.free(), incumbent),
        engines_(incumbent),
        questions_(incumbent) {
    now_.result.reduced_ops = reductions_.free().forward.n;
  }

  void run() {
    if (now_.finished()) return;
    if (on_.beams) descent_.approach();
    const int64_t most = now_.options().most_states;
    int64_t slice = now_.options().first_slice, states = 0;
    while (!now_.finished() && !worked_enough()) {
      slice = std::min(slice, affordable());
      if (!round(most > 0 ? std::min(slice, most - states) : slice)) return;
      states += slice;
      if (most > 0 && states >= most) return;
      if (!engines_.answered_on_demand()) slice = std::min(slice * 5 / 2, kLongestSlice);
      now_.raise_bound(kCutsAtOnce);
    }
  }

 private:
  bool worked_enough() const { return now_.options().most_work > 0 && affordable() < kLeastSlice; }

  // States of the leading engine whose turn, with that of all others, is within the work that is left.
  int64_t affordable() const {
    const Result& result = now_.result;
    if (now_.options().most_work == 0) return std::numeric_limits<int64_t>::max();
    const int64_t states = result.states + result.beam_states;
    const int64_t each = states > 0 ? std::max<int64_t>(1, result.work / states) : kFirstWork;
    return (now_.options().most_work - result.work) * 2 / (kHalvesOfLeader * each);
  }

  // A slice of states for the leading engine, and parts of one for everything else. False if that was the last round.
  bool round(int64_t slice) {
    const bool wide = (now_.peak() - now_.lower_bound()) * kWide > now_.peak();
    const bool more = slice > kSlicesBeforeMore * now_.options().first_slice;
    if (on_.symmetry && more) look_for_symmetry();
    engines_.prepare(reductions_, on_.search.demand && more);
    Engine* const leader = engines_.leader(wide);
    if (take_turns(slice, wide, leader)) {
      engines_.take_up(*leader);
      return false;
    }
    bool any = engines_.take_up();
    any |= questions_.any();
    questions_.take_up(reductions_);
    descent_.take_up();
    if (on_.beams && slice < kThreadedSlice) descent_.aim(slice);
    if (now_.finished()) return false;
    if (!any && !engines_.none()) now_.out_of_memory();
    return any;
  }

  // Everyone's turn. Once turns are long, the engine with most of them has one thread and everything else another.
  // Results are taken up when both are done, in a fixed order, so that the outcome does not depend on who was quicker.
  // Only when the leader's answer ends everything (true), the others leave off, and what they did does not count.
  bool take_turns(int64_t slice, bool wide, Engine* leader) {
    std::atomic<bool> decided = false;
    const Stop looking = [&] { return decided || now_.out_of_time(); };
    const Stop waiting = [&] { return decided || now_.over(); };
    const auto others = [&](const Stop& stop) { take_other_turns(slice, wide, stop); };
    const bool together = slice >= kThreadedSlice;
    std::future<void> helper;
    if (together) helper = std::async(std::launch::async, [&] { others(waiting); });
    try {
      if (leader && !now_.out_of_time()) {
        engines_.turn(*leader, slice, wide, looking);
        decided = engines_.decides(*leader);
      }
    } catch (...) {
      decided = true;  // so that the helper, which is waited for, ends soon
      throw;
    }
    if (together)
      helper.get();
    else
      others(looking);
    return decided;
  }

  void take_other_turns(int64_t slice, bool wide, const Stop& stop) {
    engines_.turn_others(slice, wide, stop);
    const bool together = slice >= kThreadedSlice;
    if (on_.propagate && slice > now_.options().first_slice)
      questions_.ask((together ? threaded_work() : kWorkPerState) * slice, stop);
    if (on_.beams) descent_.descend(slice, stop);
    if (on_.beams && together) descent_.redraw(slice, stop);
  }

  int64_t threaded_work() const {
    return std::clamp(reductions_.free().forward.n / kMacrosPerWork, kLeastThreadedWork, kMostThreadedWork);
  }

  void look_for_symmetry() {
    if (reductions_.looked_for_symmetry()) return;
    now_.result.symmetries = reductions_.look_for_symmetry([this] { return now_.out_of_time(); });
    if (reductions_.symmetries() > 0) engines_.begin_again();
  }

  Incumbent& now_;
  const Switches& on_;
  Reductions reductions_;
  Descent descent_;
  Engines engines_;
  Questions questions_;
};

}  // namespace

bool* Switches::named(const std::string& name) {
  const std::pair<const char*, bool*> known[] = {
      {"fuse_a", &fusion.a},
      {"fuse_b", &fusion.b},
      {"fuse_c", &fusion.c},
      {"cut", &cut},
      {"beams", &beams},
      {"closure", &search.closure},
      {"safe_moves", &search.safe_moves},
      {"commits", &search.commits},
      {"demand", &search.demand},
      {"forward", &forward},
      {"reversed", &reversed},
      {"best_first", &best_first},
      {"nested", &nested},
      {"propagate", &propagate},
      {"symmetry", &symmetry},
  };
  for (const auto& [own, rule] : known)
    if (name == own) return rule;
  return nullptr;
}

Result solve(const Model& model, const std::vector<int>& start, const Options& options) {
  Incumbent incumbent(model, options);
  incumbent.offer(start);
  if (model.n > 0) {
    incumbent.raise_bound(kCutsAtOnce);
    if (!incumbent.finished()) Solver(incumbent).run();
  }
  incumbent.conclude();
  return std::move(incumbent.result);
}

}  // namespace tide
