#include "papers/hmcos_hierarchy.h"

#include <algorithm>
#include <numeric>

#include "base/flow.h"

namespace tide::hmcos {

namespace {

// A list of ops that grows at its end, with its footprints relative to what is live before it. A storage that others
// touch too is live before the list, or dies in it, only if these others are predecessors of the list's first op: what
// holds in every schedule. So nothing that was computed changes when the list grows.
class Chain {
 public:
  explicit Chain(const Model& model) : model_(model), mark_(model.n, -1) {}

  void begin(int v) {
    ++number_;
    for (int u : model_.preds[v]) mark_[u] = number_;
    first_ = last_ = 0;
    const auto [stable, live] = next(v);
    first_ = stable;
    last_ = live;
    mark_[v] = number_;
  }

  // Appends v if conditions 1 and 2 then hold.
  bool append(int v) {
    const auto [stable, live] = next(v);
    if (stable > first_ || live > last_) return false;
    last_ = live;
    mark_[v] = number_;
    return true;
  }

 private:
  // Stable and transient footprint of v, run after the list.
  std::pair<Bytes, Bytes> next(int v) const {
    Bytes plus = 0, minus = 0, saving = 0;
    for (int s : model_.touched[v]) {
      const Storage& storage = model_.storages[s];
      bool begun = storage.at_start, dies = !storage.at_end;
      for (int w : storage.users) {
        if (w == v) continue;
        const bool earlier = mark_[w] == number_;
        begun |= earlier;
        dies &= earlier;
      }
      if (!begun) plus += storage.size;
      if (!dies) continue;
      minus += storage.size;
      for (const Overwrite& o : model_.overwrites[v])
        if (o.storage == s) saving = std::max(saving, o.saving);
    }
    return {last_ + plus + model_.workspace[v] - saving, last_ + plus - minus};
  }

  const Model& model_;
  std::vector<int> mark_;  // number of the last list that has the op, or has it as predecessor of its first op
  int number_ = -1;
  Bytes first_ = 0, last_ = 0;  // first stable and last transient footprint
};

// `scope`: of each op, the cell that a sequence must not leave; empty for none.
void join_sequences(const Model& model, bool join, const std::vector<int>& scope, Hierarchy& h) {
  std::vector<int> sequence_of(model.n, -1);
  Chain chain(model);
  for (int v = 0; v < model.n; ++v) {
    if (sequence_of[v] >= 0) continue;
    const int number = static_cast<int>(h.sequences.size());
    h.sequences.push_back({v});
    sequence_of[v] = number;
    if (!join) continue;
    chain.begin(v);
    for (int w = v; model.succs[w].size() == 1;) {
      w = model.succs[w][0];
      if (model.preds[w].size() != 1 || (!scope.empty() && scope[w] != scope[v]) || !chain.append(w)) break;
      h.sequences.back().push_back(w);
      sequence_of[w] = number;
    }
  }
  const size_t n = h.sequences.size();
  h.preds.resize(n);
  h.succs.resize(n);
  h.group_of.assign(n, -1);
  for (size_t i = 0; i < n; ++i) {
    for (int u : model.preds[h.sequences[i][0]]) h.preds[i].push_back(sequence_of[u]);
    std::sort(h.preds[i].begin(), h.preds[i].end());
    for (int u : h.preds[i]) h.succs[u].push_back(static_cast<int>(i));
  }
}

// Step 1. A cell is what its output vertex needs and no earlier cell has. So an edge never leads to an earlier cell.
void make_cells(const std::vector<int>& outputs, Hierarchy& h) {
  for (size_t c = 0; c < outputs.size(); ++c) {
    std::vector<int> members{outputs[c]};
    h.group_of[outputs[c]] = static_cast<int>(c);
    for (size_t i = 0; i < members.size(); ++i)
      for (int u : h.preds[members[i]])
        if (h.group_of[u] < 0) {
          h.group_of[u] = static_cast<int>(c);
          members.push_back(u);
        }
  }
}

// Steps 2 and 3 for one output vertex. What a vertex dominates in a DAG with one entry is what can be reached by
// adding, again and again, vertices all of whose predecessors are in already: no dominator tree is needed. Of that
// region the subset closed under predecessors whose values in use outside weigh least is a minimum cut: a value costs
// its size when its maker is in and a user is not.
class Border {
 public:
  Border(const Model& model, const Hierarchy& h, const std::vector<char>& is_output)
      : model_(model),
        h_(h),
        is_output_(is_output),
        place_(h.sequences.size(), -1),
        missing_(h.sequences.size()),
        sequence_of_(model.n) {
    for (size_t i = 0; i < h.sequences.size(); ++i) {
      missing_[i] = static_cast<int>(h.preds[i].size());
      for (int v : h.sequences[i]) sequence_of_[v] = static_cast<int>(i);
    }
  }

  // Members but for the output vertex, ascending; empty if no subset weighs less than the output vertex alone.
  std::vector<int> of(int output) {
    region_.assign(1, output);
    place_[output] = 0;
    std::vector<int> touched;
    for (size_t i = 0; i < region_.size(); ++i)
      for (int w : h_.succs[region_[i]]) {
        touched.push_back(w);
        if (--missing_[w] > 0 || is_output_[w] || h_.group_of[w] >= kTaken) continue;
        place_[w] = static_cast<int>(region_.size());
        region_.push_back(w);
      }
    for (int w : touched) ++missing_[w];
    std::vector<int> chosen = cut();
    for (int w : region_) place_[w] = -1;
    return chosen;
  }

  static constexpr int kTaken = 1 << 30;  // groups from here on were made by step 4

 private:
  // The network is built backwards, from the sink, so that the flow's least source side is the complement of the
  // largest subset of least weight: with a border of equal weight, a group is formed.
  std::vector<int> cut() {
    const int m = static_cast<int>(region_.size()), sink = m;
    if (m == 1) return {};
    FlowNetwork net(m + 1);
    for (int i = 1; i < m; ++i)
      for (int u : h_.preds[region_[i]]) net.add_arc(place_[u], i, FlowNetwork::kInfinite);
    for (int i = 0; i < m; ++i)
      for (int v : h_.sequences[region_[i]])
        for (int s : model_.touched[v])
          if (!model_.storages[s].at_start && model_.storages[s].users[0] == v) add_value(net, s, i, sink);
    net.augment(sink, 0);
    const std::vector<char> beyond = net.source_side(sink);
    std::vector<int> chosen;
    for (int i = 1; i < m; ++i)
      if (!beyond[i]) chosen.push_back(region_[i]);
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }

  // A storage made by member i of the region.
  void add_value(FlowNetwork& net, int s, int i, int sink) {
    const Storage& storage = model_.storages[s];
    bool outside = storage.at_end, beyond = storage.at_end;
    for (int w : storage.users) {
      outside |= place_[sequence_of_[w]] != i;
      beyond |= place_[sequence_of_[w]] < 0;
    }
    if (!outside) return;
    const int value = net.add_node();
    net.add_arc(value, i, storage.size);
    if (beyond) net.add_arc(sink, value, FlowNetwork::kInfinite);
    for (int w : storage.users) {
      const int user = place_[sequence_of_[w]];
      if (user >= 0 && user != i) net.add_arc(user, value, FlowNetwork::kInfinite);
    }
  }

  const Model& model_;
  const Hierarchy& h_;
  const std::vector<char>& is_output_;
  std::vector<int> place_;    // per sequence, its place in the region, or -1
  std::vector<int> missing_;  // per sequence, predecessors outside the region
  std::vector<int> sequence_of_, region_;
};

// Gives every group of two or more its final number, in the order of their first members; frees the others.
void number_groups(Hierarchy& h) {
  std::vector<std::pair<int, int>> entries;  // group, sequence
  for (size_t i = 0; i < h.group_of.size(); ++i)
    if (h.group_of[i] >= 0) entries.push_back({h.group_of[i], static_cast<int>(i)});
  std::stable_sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.first < b.first; });
  for (size_t i = 0, j; i < entries.size(); i = j) {
    std::vector<int> members;
    for (j = i; j < entries.size() && entries[j].first == entries[i].first; ++j) members.push_back(entries[j].second);
    if (members.size() > 1) h.groups.push_back(std::move(members));
  }
  std::sort(h.groups.begin(), h.groups.end());
  std::fill(h.group_of.begin(), h.group_of.end(), -1);
  for (size_t g = 0; g < h.groups.size(); ++g)
    for (int i : h.groups[g]) h.group_of[i] = static_cast<int>(g);
}

}  // namespace

std::vector<std::pair<int, int>> touched_by(const Model& model, const Hierarchy& h, const std::vector<int>& members) {
  std::vector<int> all;
  for (int i : members)
    for (int v : h.sequences[i]) all.insert(all.end(), model.touched[v].begin(), model.touched[v].end());
  std::sort(all.begin(), all.end());
  std::vector<std::pair<int, int>> result;
  for (int s : all) {
    if (result.empty() || result.back().first != s) result.push_back({s, 0});
    ++result.back().second;
  }
  return result;
}

Hierarchy build_hierarchy(const Model& model, const Options& options) {
  Hierarchy h;
  join_sequences(model, options.sequences, options.scope, h);
  if (!options.cells || options.cell_output.empty()) return h;
  std::vector<int> outputs;
  std::vector<char> is_output(h.sequences.size(), 0);
  for (size_t i = 0; i < h.sequences.size(); ++i) {
    const auto ends = [&](int v) { return options.cell_output[v]; };
    const std::vector<int>& ops = h.sequences[i];
    if (options.scope.empty() ? ends(ops[0]) : std::any_of(ops.begin(), ops.end(), ends)) {
      outputs.push_back(static_cast<int>(i));
      is_output[i] = 1;
    }
  }
  if (options.scope.empty()) {
    make_cells(outputs, h);
  } else {
    for (size_t i = 0; i < h.sequences.size(); ++i) h.group_of[i] = options.scope[h.sequences[i][0]];
  }
  h.cells = static_cast<int>(outputs.size());
  if (options.borders) {
    Border border(model, h, is_output);
    for (int output : outputs) {
      const std::vector<int> members = border.of(output);
      if (members.empty()) continue;
      for (int i : members) h.group_of[i] = Border::kTaken + h.borders;
      ++h.borders;
    }
  }
  number_groups(h);
  return h;
}

}  // namespace tide::hmcos
