#include "papers/hmcos_level.h"

#include <algorithm>

#include "base/bits.h"
#include "base/hash.h"

namespace tide::hmcos {

// The vertex sets of one number of vertices, with the best partial schedule of each (the paper's M_k).
struct Level::Layer {
  explicit Layer(int words) : words(words) { clear(); }

  void clear() {
    bits.clear();
    hash.clear();
    peak.clear();
    live.clear();
    ready.clear();
    ready_end.clear();
    table.assign(64, -1);
  }
  int size() const { return static_cast<int>(peak.size()); }
  size_t memory() const {
    return bits.capacity() * 8 + (hash.capacity() + peak.capacity() + live.capacity()) * 8 +
           (ready.capacity() + ready_end.capacity() + table.size()) * 4;
  }
  // Number of a set, or where to put it in the table.
  std::pair<int, size_t> find(const Word* set, uint64_t h) const {
    size_t slot = h & (table.size() - 1);
    for (; table[slot] >= 0; slot = (slot + 1) & (table.size() - 1)) {
      const int i = table[slot];
      if (hash[i] == h && std::equal(set, set + words, bits.begin() + size_t(i) * words)) return {i, slot};
    }
    return {-1, slot};
  }
  void add(const Word* set, uint64_t h, size_t slot, Bytes set_peak, Bytes set_live) {
    table[slot] = size();
    bits.insert(bits.end(), set, set + words);
    hash.push_back(h);
    peak.push_back(set_peak);
    live.push_back(set_live);
    if (peak.size() * 2 <= table.size()) return;
    table.assign(table.size() * 2, -1);
    for (int i = 0; i < size(); ++i) {
      size_t at = hash[i] & (table.size() - 1);
      while (table[at] >= 0) at = (at + 1) & (table.size() - 1);
      table[at] = i;
    }
  }

  int words;
  std::vector<Word> bits;
  std::vector<uint64_t> hash;
  std::vector<Bytes> peak, live;
  std::vector<int> ready, ready_end;  // ready vertices of each set, ascending
  std::vector<int> table;             // open addressing; -1 where free
};

// How the sets of one layer were reached: all that is kept of it.
struct Level::Trail {
  struct Step {
    int parent, vertex, plan;
  };
  std::vector<std::vector<Step>> layers;
  std::vector<std::vector<int>> plans;  // sequences of a group, in the order chosen
  std::map<std::vector<int>, int> number_of_plan;

  int number(const std::vector<int>& plan) {
    const auto [it, is_new] = number_of_plan.try_emplace(plan, static_cast<int>(plans.size()));
    if (is_new) plans.push_back(plan);
    return it->second;
  }
};

Level::Level(const Model& model, const Hierarchy& h, const std::vector<Sequence>& sequences,
             std::vector<Vertex> vertices, const std::vector<std::vector<int>>& members)
    : model_(model),
      sequences_(sequences),
      vertices_(std::move(vertices)),
      words_(bits::words_for(static_cast<int>(vertices_.size()))) {
  const int n = static_cast<int>(vertices_.size());
  // Looked up by bisection: a table as long as the graph would cost too much for each of many small groups.
  std::vector<std::pair<int, int>> vertex_of;  // sequence, vertex
  for (int v = 0; v < n; ++v)
    for (int i : members[v]) vertex_of.push_back({i, v});
  std::sort(vertex_of.begin(), vertex_of.end());
  preds_.resize(n);
  succs_.resize(n);
  for (int v = 0; v < n; ++v) {
    for (int i : members[v])
      for (int j : h.preds[i]) {
        const auto it = std::lower_bound(vertex_of.begin(), vertex_of.end(), std::pair{j, 0});
        if (it != vertex_of.end() && it->first == j && it->second != v) preds_[v].push_back(it->second);
      }
    std::sort(preds_[v].begin(), preds_[v].end());
    preds_[v].erase(std::unique(preds_[v].begin(), preds_[v].end()), preds_[v].end());
    for (int u : preds_[v]) succs_[u].push_back(v);
  }
  auto open = [&](const Vertex& v) -> const std::vector<int>& {
    return v.group ? v.group->open() : sequences[v.sequence].open();
  };
  for (const Vertex& v : vertices_) storages_.insert(storages_.end(), open(v).begin(), open(v).end());
  std::sort(storages_.begin(), storages_.end());
  storages_.erase(std::unique(storages_.begin(), storages_.end()), storages_.end());
  touchers_.resize(storages_.size());
  for (int v = 0; v < n; ++v) {
    Vertex& vertex = vertices_[v];
    for (int s : open(vertex)) {
      const auto place = std::lower_bound(storages_.begin(), storages_.end(), s) - storages_.begin();
      vertex.slots.push_back(static_cast<int>(place));
      touchers_[place].push_back(v);
    }
    for (const auto& [s, count] : touched_by(model, h, members[v])) {
      const Storage& storage = model.storages[s];
      if (count < static_cast<int>(storage.users.size())) continue;
      if (!storage.at_start) vertex.fixed += storage.size;
      if (!storage.at_end) vertex.fixed -= storage.size;
    }
  }
}

void Level::context(const Vertex& v, const Ends& ends, const Word* done, Context& out) const {
  out.assign((v.slots.size() + 31) / 32, 0);
  const int self = static_cast<int>(&v - vertices_.data());
  for (size_t k = 0; k < v.slots.size(); ++k) {
    const int slot = v.slots[k];
    bool some = ends.begun[slot], every = ends.dies[slot];
    for (int w : touchers_[slot]) {
      if (w == self) continue;
      (bits::has(done, w) ? some : every) = bits::has(done, w);
    }
    out[k >> 5] |= (uint64_t{some} | uint64_t{every} << 1) << (2 * (k & 31));
  }
}

Bytes Level::change(const Vertex& v, const Context& context) const {
  Bytes result = v.fixed;
  for (size_t k = 0; k < v.slots.size(); ++k) {
    const Bytes size = model_.storages[storages_[v.slots[k]]].size;
    if (!begun(context, static_cast<int>(k))) result += size;
    if (dies(context, static_cast<int>(k))) result -= size;
  }
  return result;
}

Plan Level::simple(const Ends& ends) const {
  BitSet done(static_cast<int>(vertices_.size()));
  Context here;
  Plan plan{std::numeric_limits<Bytes>::min(), {}};
  Bytes live = 0;
  for (size_t v = 0; v < vertices_.size(); ++v) {
    context(vertices_[v], ends, done.data(), here);
    plan.peak = std::max(plan.peak, live + sequences_[vertices_[v].sequence].peak(here));
    plan.sequences.push_back(vertices_[v].sequence);
    live += change(vertices_[v], here);
    done.put(static_cast<int>(v));
  }
  return plan;
}

bool Level::search(const Ends& ends, Bytes live, Bytes budget, Work& work, int64_t& expanded, int64_t& states,
                   Plan& plan) {
  const int n = static_cast<int>(vertices_.size());
  Layer layer(words_), next(words_);
  Trail trail;
  BitSet set(n);
  layer.add(set.data(), 0, layer.find(set.data(), 0).second, std::numeric_limits<Bytes>::min(), live);
  for (int v = 0; v < n; ++v)
    if (preds_[v].empty()) layer.ready.push_back(v);
  layer.ready_end.push_back(static_cast<int>(layer.ready.size()));
  Context here;
  const size_t others = work.memory();
  size_t trail_bytes = 0;
  for (int k = 0; k < n && layer.size() > 0; ++k) {
    next.clear();
    trail.layers.emplace_back();
    std::vector<Trail::Step>& steps = trail.layers.back();
    for (int i = 0; i < layer.size(); ++i) {
      const int first = i ? layer.ready_end[i - 1] : 0, last = layer.ready_end[i];
      set.assign(&layer.bits[size_t(i) * words_]);
      for (int r = first; r < last && !work.stop(); ++r) {
        const int v = layer.ready[r];
        const Vertex& vertex = vertices_[v];
        ++expanded;
        context(vertex, ends, set.data(), here);
        const Bytes before = layer.live[i];
        Bytes peak;
        const Plan* inner = nullptr;
        if (vertex.group) {
          const Bytes so_far = layer.peak[i];
          const Bytes free = so_far == std::numeric_limits<Bytes>::min() ? so_far : so_far - before;
          inner = vertex.group->schedule(here, free, budget == kNoBudget ? budget : budget - before, work);
          if (!inner) {
            ++work.now.pruned;
            continue;
          }
          peak = std::max(so_far, before + inner->peak);
        } else {
          peak = std::max(layer.peak[i], before + sequences_[vertex.sequence].peak(here));
        }
        if (peak > budget) {
          ++work.now.pruned;
          continue;
        }
        set.put(v);
        const uint64_t hash = layer.hash[i] ^ scatter(v);
        const auto [known, slot] = next.find(set.data(), hash);
        if (known < 0) {
          next.add(set.data(), hash, slot, peak, before + change(vertex, here));
          steps.push_back({i, v, inner ? trail.number(inner->sequences) : -1});
          // Ready now: what was, and the successors of v that waited for nothing else; both ascending.
          const size_t start = next.ready.size();
          for (int q = first; q < last; ++q)
            if (q != r) next.ready.push_back(layer.ready[q]);
          const size_t middle = next.ready.size();
          for (int w : succs_[v])
            if (std::all_of(preds_[w].begin(), preds_[w].end(), [&](int u) { return set.has(u); }))
              next.ready.push_back(w);
          std::inplace_merge(next.ready.begin() + start, next.ready.begin() + middle, next.ready.end());
          next.ready_end.push_back(static_cast<int>(next.ready.size()));
        } else if (peak < next.peak[known]) {
          next.peak[known] = peak;
          steps[known] = {i, v, inner ? trail.number(inner->sequences) : -1};
        }
        set.drop(v);
      }
      if (work.stopped()) break;
      if (i % 256 == 255)
        work.use(others + trail_bytes + layer.memory() + next.memory() + steps.capacity() * sizeof(Trail::Step));
    }
    if (work.stopped()) break;
    states += next.size();
    steps.shrink_to_fit();
    trail_bytes += steps.capacity() * sizeof(Trail::Step);
    std::swap(layer, next);
  }
  work.use(others);
  const bool found = !work.stopped() && static_cast<int>(trail.layers.size()) == n && layer.size() == 1;
  if (found) {
    plan.peak = layer.peak[0];
    std::vector<const Trail::Step*> way(n);
    for (int k = n - 1, at = 0; k >= 0; --k) {
      way[k] = &trail.layers[k][at];
      at = way[k]->parent;
    }
    plan.sequences.clear();
    for (const Trail::Step* step : way) {
      if (step->plan < 0)
        plan.sequences.push_back(vertices_[step->vertex].sequence);
      else
        plan.sequences.insert(plan.sequences.end(), trail.plans[step->plan].begin(), trail.plans[step->plan].end());
    }
  }
  return found;
}

}  // namespace tide::hmcos
