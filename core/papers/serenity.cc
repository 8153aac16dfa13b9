#include "papers/serenity.h"

#include <bit>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>

#include "base/hash.h"
#include "papers/serenity_step.h"

namespace tide::serenity {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kMost = std::numeric_limits<Bytes>::max();
constexpr int64_t kMovesPerLook = 4096;  // moves between two looks at the clock, if a set is one word
constexpr double kReportSeconds = 0.05;

// Looks at the segments one after the other: each as its own small problem, the ones before it run to their end.
class Divider {
 public:
  explicit Divider(const Model& model)
      : model_(model), local_(model.n, -1), known_(model.storages.size(), -1), ran_(model.storages.size(), 0) {
    for (const Storage& s : model.storages)
      if (s.at_start && (s.at_end || !s.users.empty())) live_ += s.size;
  }

  Segment next(const Nodes& nodes) {
    Segment seg;
    seg.n = static_cast<int>(nodes.size());
    seg.words = bits::words_for(seg.n);
    seg.start = live_;
    seg.touched.resize(seg.n);
    seg.later.resize(seg.n);
    seg.savings.resize(seg.n);
    seg.preds.resize(seg.n);
    seg.succs.resize(seg.n);
    for (int i = 0; i < seg.n; ++i)
      for (int v : nodes[i]) local_[v] = i;
    std::vector<int> met;
    for (int i = 0; i < seg.n; ++i) {
      std::vector<int> before;
      for (int v : nodes[i]) {
        for (int s : model_.touched[v]) {
          if (known_[s] < 0) {
            known_[s] = static_cast<int>(met.size());
            met.push_back(s);
            seg.storages.push_back(look_at(s));
          }
          auto& row = v == nodes[i].front() ? seg.touched[i] : seg.later[i];
          if (!contains(seg.touched[i], known_[s]) && !contains(row, known_[s])) row.push_back(known_[s]);
        }
        for (int u : inside(model_.preds[v]))
          if (u != i && !contains(before, u)) before.push_back(u);
      }
      seg.workspace.push_back(model_.workspace[nodes[i].front()]);
      std::sort(before.begin(), before.end());
      for (int u : before) seg.succs[u].push_back(i);
      seg.preds[i] = Mask(before);
    }
    for (int i = 0; i < seg.n; ++i)
      for (const Overwrite& o : model_.overwrites[nodes[i].front()])
        if (const auto& over = seg.storages[known_[o.storage]]; over.may_die && dies_first(nodes[i], o.storage))
          seg.savings[i].push_back({o.saving, over.users});
    for (int s : met) {
      const Segment::Touched& t = seg.storages[known_[s]];
      live_ += (t.may_begin ? t.size : 0) - (t.may_die ? t.size : 0);
      known_[s] = -1;
    }
    for (const Node& node : nodes)
      for (int v : node) {
        local_[v] = -1;
        for (int s : model_.touched[v]) ++ran_[s];
      }
    return seg;
  }

 private:
  static bool contains(const std::vector<int>& row, int i) { return std::find(row.begin(), row.end(), i) != row.end(); }
  // Whether no later op of the node touches the storage.
  bool dies_first(const Node& node, int storage) const {
    return std::none_of(node.begin() + 1, node.end(), [&](int v) { return contains(model_.touched[v], storage); });
  }
  // Nodes of the segment that the ops are in; one may be there twice.
  std::vector<int> inside(const std::vector<int>& ops) const {
    std::vector<int> found;
    for (int v : ops)
      if (local_[v] >= 0) found.push_back(local_[v]);
    std::sort(found.begin(), found.end());
    return found;
  }
  Segment::Touched look_at(int s) const {
    const Storage& storage = model_.storages[s];
    const std::vector<int> here = inside(storage.users);
    return {storage.size, !storage.at_start && ran_[s] == 0,
            !storage.at_end && ran_[s] + here.size() == storage.users.size(), Mask(here)};
  }

  const Model& model_;
  Bytes live_ = 0;
  std::vector<int> local_, known_;
  std::vector<size_t> ran_;  // per storage, how many of its users have run
};

// Bytes that some op of the segment needs in every order.
Bytes largest_single_op(const Segment& seg) {
  Bytes most = 0;
  for (int i = 0; i < seg.n; ++i) {
    Bytes need = seg.workspace[i], saving = 0;
    for (int s : seg.touched[i]) need += seg.storages[s].size;
    for (const Segment::Saving& s : seg.savings[i]) saving = std::max(saving, s.bytes);
    most = std::max(most, need - saving);
  }
  return most;
}

class SegmentScheduler {
 public:
  SegmentScheduler(const Model& model, const Options& options, Result& result)
      : model_(model), options_(options), result_(result), unit_(unit_of(model)) {}

  void run(const std::vector<Nodes>& segments);

 private:
  struct Link {
    int parent, op;  // the entry of the step before, and the op that was run from it
  };

  Flag algorithm1(const Segment& seg, Attempt& attempt, std::vector<int>& order);
  Flag expand(const Segment& seg, const SearchStep& now, int e, Attempt& attempt, SearchStep& next,
              std::vector<Link>& links);
  bool grow(SearchStep& next, std::vector<Link>& links);
  bool algorithm2(const Segment& seg, int number, Bytes floor, Bytes hard, std::vector<int>& order);
  bool as_printed(const Segment& seg, int number, Bytes hard, std::vector<int>& order);
  Flag attempt(const Segment& seg, int number, Bytes budget, int64_t step_limit, std::vector<int>& order);
  bool look();
  // Signatures that a step may hold at first; -1 if T is in seconds.
  int64_t first_limit() const { return options_.step_seconds > 0 ? -1 : options_.step_limit; }
  void measure(const std::vector<Nodes>& segments);
  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  Bytes best() const {
    return result_.segment_peaks.empty()
               ? 0
               : *std::max_element(result_.segment_peaks.begin(), result_.segment_peaks.end());
  }

  const Model& model_;
  const Options& options_;
  Result& result_;
  const Bytes unit_;
  const Clock::time_point began_ = Clock::now();
  int64_t look_every_ = 1;
  double step_seconds_ = 0, step_began_ = 0;  // T of the latest attempt, 0 for none; when its search step began
  double next_report_ = 0;
  size_t used_ = 0;  // bytes of the steps and links there are
  bool out_of_memory_ = false;
  std::optional<Stopped> why_;  // time or interrupt, once it is one of them
  Bytes reached_ = 0;           // peak of the latest solution
  Bytes kept_ = 0;              // largest peak of what the latest attempt kept,
  Bytes pruned_ = kMost;  // and least of what it left out: it is the same under every budget from one below the other
  std::vector<Word> run_, ready_;
};

// Whether to stop.
bool SegmentScheduler::look() {
  const double now = seconds();
  if (options_.report && now >= next_report_) {
    if (options_.report(best(), now)) why_ = Stopped::kInterrupt;
    next_report_ = now + kReportSeconds;
  }
  if (!why_ && now >= options_.seconds) why_ = Stopped::kTime;
  return why_.has_value();
}

// Peaks of the segments in the order so far.
void SegmentScheduler::measure(const std::vector<Nodes>& segments) {
  const std::vector<Bytes> hills = footprints(model_, result_.order);
  result_.segment_peaks.clear();
  auto at = hills.begin();
  for (const Nodes& segment : segments) {
    Bytes most = 0;
    for (const Node& node : segment)
      for (size_t i = 0; i < node.size(); ++i) most = std::max(most, *at++);
    result_.segment_peaks.push_back(most);
  }
}

// Makes room for one more entry and its link, if there is memory for it.
bool SegmentScheduler::grow(SearchStep& next, std::vector<Link>& links) {
  if (links.size() == links.capacity()) {
    const size_t wanted = std::max<size_t>(8, links.capacity() * 2);
    if (used_ + wanted * sizeof(Link) > options_.memory_bytes) return false;
    used_ += (wanted - links.capacity()) * sizeof(Link);
    links.reserve(wanted);
  }
  const bool fits = next.reserve(options_.memory_bytes);
  result_.memory_bytes = std::max(result_.memory_bytes, used_);
  return fits;
}

// Lines 10 to 24 of Algorithm 1: runs each op of entry e's zero-indegree set, and memoises what comes of it.
Flag SegmentScheduler::expand(const Segment& seg, const SearchStep& now, int e, Attempt& attempt, SearchStep& next,
                              std::vector<Link>& links) {
  const SearchStep::Entry at = now[e];
  const Word* before = now.run(e);
  run_.assign(before, before + seg.words);
  for (int w = 0; w < seg.words; run_[w] = before[w], ++w)
    for (Word rest = now.ready(e)[w]; rest; rest &= rest - 1) {
      const int u = w * bits::kPerWord + std::countr_zero(rest);
      if (++attempt.moves % look_every_ == 0 && look()) return Flag::kStopped;
      if (step_seconds_ > 0 && seconds() - step_began_ > step_seconds_) return Flag::kTimeout;
      run_[w] = before[w] | (rest & -rest);
      const Segment::Move move = seg.move(u, at.live, before, run_.data());
      const Bytes peak = std::max(at.peak, move.hill);
      if (attempt.budget >= 0 && peak > attempt.budget) {
        pruned_ = std::min(pruned_, peak);
        continue;
      }
      kept_ = std::max(kept_, peak);
      const uint64_t hash = at.hash ^ scatter(u);
      if (const int found = next.find(hash, run_.data()); found >= 0) {
        if (peak < next[found].peak) {
          next[found].peak = peak;
          links[found] = {e, u};
        }
        continue;
      }
      if (attempt.step_limit >= 0 && next.size() >= attempt.step_limit) return Flag::kTimeout;
      if (!grow(next, links)) {
        out_of_memory_ = true;
        return Flag::kStopped;
      }
      ready_.assign(now.ready(e), now.ready(e) + seg.words);
      ready_[w] &= ~(rest & -rest);
      for (int v : seg.succs[u])
        if (seg.preds[v].inside(run_.data())) bits::put(ready_.data(), v);
      next.add(hash, move.after, peak, run_.data(), ready_.data());
      links.push_back({e, u});
      ++attempt.states;
    }
  return Flag::kSolution;
}

// Algorithm 1 on one segment, without what exceeds the attempt's budget or its limit of signatures per step.
Flag SegmentScheduler::algorithm1(const Segment& seg, Attempt& attempt, std::vector<int>& order) {
  const size_t used_before = used_;
  kept_ = 0;
  pruned_ = kMost;
  look_every_ = std::max<int64_t>(1, kMovesPerLook / std::max(seg.words, 1));
  std::vector<std::vector<Link>> links(seg.n + 1);
  auto now = std::make_unique<SearchStep>(seg.words, used_);
  Flag flag = grow(*now, links[0]) ? Flag::kSolution : Flag::kStopped;
  if (flag == Flag::kStopped) out_of_memory_ = true;
  if (flag == Flag::kSolution) {
    run_.assign(seg.words, 0);
    ready_.assign(seg.words, 0);
    for (int u = 0; u < seg.n; ++u)
      if (seg.preds[u].empty()) bits::put(ready_.data(), u);
    now->add(0, seg.start, 0, run_.data(), ready_.data());
    ++attempt.states;
  }
  for (int i = 0; i < seg.n && flag == Flag::kSolution; ++i) {
    auto next = std::make_unique<SearchStep>(seg.words, used_);
    step_began_ = seconds();
    for (int e = 0; e < now->size() && flag == Flag::kSolution; ++e)
      flag = expand(seg, *now, e, attempt, *next, links[i + 1]);
    if (flag == Flag::kSolution && next->size() == 0) flag = Flag::kNoSolution;
    result_.widest = std::max<int64_t>(result_.widest, next->size());
    now = std::move(next);
  }
  if (flag == Flag::kSolution) {
    reached_ = (*now)[0].peak;
    order.assign(seg.n, 0);
    for (int i = seg.n, e = 0; i > 0; --i) {
      order[i - 1] = links[i][e].op;
      e = links[i][e].parent;
    }
  }
  now.reset();
  used_ = used_before;  // the links go with this call
  return flag;
}

Flag SegmentScheduler::attempt(const Segment& seg, int number, Bytes budget, int64_t step_limit,
                               std::vector<int>& order) {
  Attempt made{number, budget, step_limit};
  const Flag flag = made.flag = algorithm1(seg, made, order);
  result_.states += made.states;
  result_.moves += made.moves;
  result_.attempts.push_back(made);
  return flag;
}

// Algorithm 2. `hard` is tau_max, the peak of Kahn's order; no order has a peak below `floor`. All budgets are
// multiples of the unit that all sizes are multiples of.
bool SegmentScheduler::algorithm2(const Segment& seg, int number, Bytes floor, Bytes hard, std::vector<int>& order) {
  step_seconds_ = options_.step_seconds;
  if (options_.printed) return as_printed(seg, number, hard, order);
  int64_t limit = first_limit();
  Bytes refuted = floor - unit_;  // no order has this peak or less
  Bytes beyond = kMost;           // least budget that timed out under this limit
  Bytes budget = hard;
  for (;;) {
    const Flag flag = attempt(seg, number, budget, limit, order);
    if (flag == Flag::kSolution) return true;
    if (flag == Flag::kStopped) return false;
    if (flag == Flag::kTimeout) beyond = std::max(kept_, refuted + unit_);
    if (flag == Flag::kNoSolution) refuted = pruned_ - unit_;
    const Bytes top = std::min(beyond, hard);
    if (top - refuted <= unit_) {  // only `top` is left
      if (beyond == top) {
        step_seconds_ *= 2;
        if (limit > 0) limit = limit > kMost / 2 ? kMost : limit * 2;
      }
      beyond = kMost;
      budget = top;
      continue;
    }
    const Bytes half = top / 2 / unit_ * unit_;
    const Bytes middle = refuted + ((top - refuted) / unit_ + 1) / 2 * unit_;  // below top
    budget = flag == Flag::kTimeout && half > refuted ? half : middle;
  }
}

// Algorithm 2 line by line. Once the budget no longer moves, the printed loop is endless: the segment is given up.
bool SegmentScheduler::as_printed(const Segment& seg, int number, Bytes hard, std::vector<int>& order) {
  Bytes before = hard, budget = hard;
  for (;;) {
    const Flag flag = attempt(seg, number, budget, first_limit(), order);
    if (flag == Flag::kSolution) return true;
    if (flag == Flag::kStopped) return false;
    const Bytes next = flag == Flag::kTimeout ? budget / 2 : (budget + before) / 2;
    if (next == budget) return false;
    before = budget;
    budget = next;
  }
}

void SegmentScheduler::run(const std::vector<Nodes>& segments) {
  for (const Nodes& segment : segments)
    for (const Node& node : segment) result_.order.insert(result_.order.end(), node.begin(), node.end());
  measure(segments);
  result_.kahn_peak = best();
  Divider divider(model_);
  auto begin = result_.order.begin();
  for (size_t k = 0; k < segments.size() && !why_; ++k) {
    const Segment seg = divider.next(segments[k]);
    std::vector<int> order;
    const bool found = options_.soft_budget
                           ? algorithm2(seg, k, largest_single_op(seg), result_.segment_peaks[k], order)
                           : attempt(seg, k, -1, -1, order) == Flag::kSolution;
    if (found) {
      ++result_.solved;
      auto place = begin;
      for (int i : order) place = std::copy(segments[k][i].begin(), segments[k][i].end(), place);
      result_.segment_peaks[k] = reached_;
    }
    for (const Node& node : segments[k]) begin += node.size();
    if (k + 1 < segments.size() && !why_) look();
  }
  measure(segments);
  result_.peak = best();
  result_.stopped = why_.value_or(out_of_memory_ ? Stopped::kMemory : Stopped::kComplete);
}

}  // namespace

Result schedule(const Model& model, const std::vector<Nodes>& segments, const Options& options) {
  Result result;
  SegmentScheduler(model, options, result).run(segments);
  return result;
}

}  // namespace tide::serenity
