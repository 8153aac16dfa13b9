#include "papers/hmcos.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "papers/hmcos_level.h"

namespace tide::hmcos {

namespace {

// Sequences to be looked at after an order: those of the ops that make what is alive at its first peak (X_peak of
// Algorithm 1), and as `dissolve` says of those that touch it next, or ever. What was there before the first op has no
// maker.
std::vector<int> at_peak(const Model& model, const std::vector<int>& order, const std::vector<int>& sequence_of,
                         Dissolve dissolve) {
  const std::vector<Bytes> profile = footprints(model, order);
  const int peak_step = static_cast<int>(std::max_element(profile.begin(), profile.end()) - profile.begin());
  std::vector<int> step_of(model.n);
  for (int step = 0; step < model.n; ++step) step_of[order[step]] = step;
  std::vector<int> found;
  for (const Storage& storage : model.storages) {
    if (storage.users.empty()) continue;
    int first = model.n, last = -1, next = model.n;
    for (int v : storage.users) {
      first = std::min(first, step_of[v]);
      last = std::max(last, step_of[v]);
      if (step_of[v] >= peak_step) next = std::min(next, step_of[v]);
    }
    if ((first > peak_step && !storage.at_start) || (last < peak_step && !storage.at_end)) continue;
    if (!storage.at_start) found.push_back(sequence_of[order[first]]);
    if (dissolve == Dissolve::kNext && next < model.n) found.push_back(sequence_of[order[next]]);
    if (dissolve == Dissolve::kUsers)
      for (int v : storage.users) found.push_back(sequence_of[v]);
  }
  return found;
}

// Sequences of each vertex of the top level, ascending: the intact groups, and every free sequence for itself.
std::vector<std::vector<int>> top_level(const Hierarchy& h, const std::vector<std::unique_ptr<Group>>& groups) {
  std::vector<std::vector<int>> members;
  for (size_t i = 0; i < h.sequences.size(); ++i) {
    const int g = h.group_of[i];
    if (g < 0 || !groups[g])
      members.push_back({static_cast<int>(i)});
    else if (h.groups[g][0] == static_cast<int>(i))
      members.push_back(h.groups[g]);
  }
  return members;
}

}  // namespace

Result schedule(const Model& model, const std::vector<int>& rpo, const Options& options) {
  Result result;
  result.order = rpo;
  result.peak = result.start_peak = peak(model, rpo);
  result.kept_start = true;
  Work work(options, result.peak);
  const Hierarchy h = build_hierarchy(model, options);
  result.sequences = static_cast<int>(h.sequences.size());
  result.cells = h.cells;
  result.borders = h.borders;
  result.groups = static_cast<int>(h.groups.size());
  result.sequence_ops = h.sequences;
  result.group_sequences = h.groups;

  std::vector<int> step_of(model.n), sequence_of(model.n), rank(h.sequences.size());
  for (int step = 0; step < model.n; ++step) step_of[rpo[step]] = step;
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < h.sequences.size(); ++i) {
    sequences.emplace_back(model, h.sequences[i]);
    rank[i] = step_of[h.sequences[i][0]];
    for (int v : h.sequences[i]) sequence_of[v] = static_cast<int>(i);
  }
  std::vector<std::unique_ptr<Group>> groups;
  for (const auto& members : h.groups) groups.push_back(std::make_unique<Group>(model, h, sequences, members, rank));

  Bytes start = 0;
  for (const Storage& storage : model.storages)
    if (storage.at_start) start += storage.size;
  Bytes budget = kNoBudget;
  int freed = 0;
  while (model.n > 0) {
    const double began = work.seconds();
    work.now = Iteration();
    work.now.freed = freed;
    const std::vector<std::vector<int>> members = top_level(h, groups);
    std::vector<Level::Vertex> vertices(members.size());
    for (size_t v = 0; v < members.size(); ++v) {
      const int i = members[v][0], g = h.group_of[i];
      if (g >= 0 && groups[g]) {
        vertices[v].group = groups[g].get();
        ++work.now.groups;
      } else {
        vertices[v].sequence = i;
      }
    }
    work.now.vertices = static_cast<int>(vertices.size());
    Level level(model, h, sequences, std::move(vertices), members);
    Level::Ends ends;
    for (int s : level.storages()) {
      ends.begun.push_back(model.storages[s].at_start);
      ends.dies.push_back(!model.storages[s].at_end);
    }
    Plan plan;
    work.look();
    const bool found =
        !work.stopped() && level.search(ends, start, budget, work, work.now.expanded, work.now.states, plan);
    work.now.seconds = work.seconds() - began;
    if (!found) {
      result.iterations.push_back(work.now);
      break;
    }
    // Algorithm 1 as printed leaves the loop before it keeps the last schedule; here it is kept first.
    std::vector<int> order;
    for (int i : plan.sequences) order.insert(order.end(), h.sequences[i].begin(), h.sequences[i].end());
    work.now.peak = plan.peak;
    for (int i : at_peak(model, order, sequence_of, options.dissolve)) {
      const int g = h.group_of[i];
      if (g < 0 || !groups[g]) continue;
      groups[g].reset();
      ++work.now.dissolved;
      freed += static_cast<int>(h.groups[g].size());
    }
    result.iterations.push_back(work.now);
    if (plan.peak <= result.peak) {
      result.order = std::move(order);
      result.peak = work.best = plan.peak;
      result.kept_start = false;
    }
    if (options.budget) budget = plan.peak;
    if (result.iterations.back().dissolved == 0) break;
  }
  result.stopped = work.stopped().value_or(Stopped::kComplete);
  result.memory_bytes = work.most_memory();
  return result;
}

}  // namespace tide::hmcos
