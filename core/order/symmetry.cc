#include "order/symmetry.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/hash.h"

namespace tide {

namespace {

constexpr int64_t kStep = 2;    // nanoseconds of a look at a macro that moves
constexpr int64_t kMapped = 4;  // such looks that mapping it takes
// Two values in one, the first and the second told apart. The order of colours decides which symmetry is looked for
// first, so this stays what it is, for the states that a search counts to stay what they are.
uint64_t combined(uint64_t a, uint64_t b) {
  a ^= b + kGolden + (a << 6) + (a >> 2);
  a = (a ^ (a >> 29)) * 0xbf58476d1ce4e5b9ULL;
  return a ^ (a >> 32);
}

// Vertices: the macros, then the shared storages. Two vertices of one colour look alike as far as refinement sees.
class Colours {
 public:
  explicit Colours(const Problem& p) : p_(p), storages_(static_cast<int>(p.size.size())) {
    for (int m = 0; m < p.n; ++m) {
      uint64_t c = combined(1, static_cast<uint64_t>(p.fixed[m]));
      for (int i = p.program[m]; i < p.program[m + 1]; ++i)
        c = combined(combined(c, p.items[i].kind), static_cast<uint64_t>(p.items[i].bytes));
      colour.push_back(c);
    }
    for (int s = 0; s < storages_; ++s)
      colour.push_back(combined(combined(2, static_cast<uint64_t>(p.size[s])), p.begins[s] * 2 + p.finishes[s]));
  }

  // Until the number of colours stops growing. Returns the steps it took.
  int64_t refine() {
    int64_t steps = 0;
    size_t before = 0;
    for (size_t now = distinct(); now > before; now = distinct()) {
      before = now;
      std::vector<uint64_t> next(colour.size());
      for (int m = 0; m < p_.n; ++m) {
        uint64_t c = combined(colour[m], together(p_.preds, m, 0));
        c = combined(c, together(p_.succs, m, 0));
        for (int i = p_.program[m]; i < p_.program[m + 1]; ++i)
          if (p_.items[i].storage >= 0) c = combined(c, colour[p_.n + p_.items[i].storage]);
        next[m] = combined(c, together(p_.touched, m, p_.n));
      }
      for (int s = 0; s < storages_; ++s) next[p_.n + s] = combined(colour[p_.n + s], together(p_.users, s, 0));
      colour = std::move(next);
      steps += static_cast<int64_t>(p_.touched.items.size() + p_.preds.items.size() + p_.items.size());
    }
    return steps;
  }

  std::vector<uint64_t> colour;

 private:
  // A value that does not depend on the order of a row's members.
  uint64_t together(const Rows& rows, int row, int first) const {
    uint64_t sum = 0;
    for (const int* x = rows.first(row); x != rows.last(row); ++x) sum += combined(7, colour[first + *x]);
    return sum;
  }
  size_t distinct() const {
    std::vector<uint64_t> sorted = colour;
    std::sort(sorted.begin(), sorted.end());
    return std::unique(sorted.begin(), sorted.end()) - sorted.begin();
  }

  const Problem& p_;
  const int storages_;
};

// Members of each colour, by colour.
std::map<uint64_t, std::vector<int>> classes(const std::vector<uint64_t>& colour) {
  std::map<uint64_t, std::vector<int>> result;
  for (int x = 0; x < static_cast<int>(colour.size()); ++x) result[colour[x]].push_back(x);
  return result;
}

// A map of all vertices that takes u to v and as much else as it can to itself; empty if refinement finds none.
std::vector<int> match(const Problem& p, const std::vector<uint64_t>& stable, int u, int v, int64_t& work) {
  Colours from(p), to(p);
  from.colour = to.colour = stable;
  int a = u, b = v;
  for (uint64_t round = 0;; ++round) {
    from.colour[a] = combined(from.colour[a], 1000003 + round);
    to.colour[b] = combined(to.colour[b], 1000003 + round);
    work -= from.refine() + to.refine() + static_cast<int64_t>(stable.size());
    if (work < 0) return {};
    const auto left = classes(from.colour), right = classes(to.colour);
    if (left.size() != right.size()) return {};
    a = -1;
    std::vector<int> image(stable.size(), -1);
    for (const auto& [colour, members] : left) {
      const auto other = right.find(colour);
      if (other == right.end() || other->second.size() != members.size()) return {};
      if (members.size() == 1) {
        image[members[0]] = other->second[0];
      } else if (a < 0 || members[0] < a) {
        a = members[0];
        const bool stays = std::binary_search(other->second.begin(), other->second.end(), a);
        b = stays ? a : other->second[0];
      }
    }
    if (a < 0) return image;
  }
}

// Whether a map of vertices preserves arcs, storages and programs.
bool holds(const Problem& p, const std::vector<int>& image) {
  const auto same_row = [&](const Rows& rows, int row, int row_image, int first) {
    std::vector<int> mapped, there(rows.first(row_image), rows.last(row_image));
    for (const int* x = rows.first(row); x != rows.last(row); ++x) mapped.push_back(image[first + *x] - first);
    std::sort(mapped.begin(), mapped.end());
    std::sort(there.begin(), there.end());
    return mapped == there;
  };
  for (int m = 0; m < p.n; ++m) {
    const int to = image[m];
    if (to >= p.n || p.fixed[m] != p.fixed[to] ||
        p.program[m + 1] - p.program[m] != p.program[to + 1] - p.program[to] || !same_row(p.preds, m, to, 0) ||
        !same_row(p.succs, m, to, 0) || !same_row(p.touched, m, to, p.n))
      return false;
    for (int i = p.program[m], j = p.program[to]; i < p.program[m + 1]; ++i, ++j) {
      const Item &x = p.items[i], &y = p.items[j];
      if (x.kind != y.kind || x.bytes != y.bytes || (x.storage < 0) != (y.storage < 0) ||
          (x.storage >= 0 && image[p.n + x.storage] != p.n + y.storage))
        return false;
    }
  }
  for (size_t s = 0; s < p.size.size(); ++s) {
    const int to = image[p.n + s] - p.n;
    if (to < 0 || p.size[s] != p.size[to] || p.begins[s] != p.begins[to] || p.finishes[s] != p.finishes[to] ||
        !same_row(p.users, static_cast<int>(s), to, 0))
      return false;
  }
  return true;
}

}  // namespace

Symmetry::Symmetry(const Problem& p, int64_t work, const std::function<bool()>& stop) : n_(p.n) {
  Colours colours(p);
  work -= colours.refine();
  std::vector<int> orbit(p.n);  // union-find: macros that symmetries found so far exchange
  std::iota(orbit.begin(), orbit.end(), 0);
  const auto find = [&](int m) {
    while (orbit[m] != m) m = orbit[m] = orbit[orbit[m]];
    return m;
  };
  for (const auto& [colour, members] : classes(colours.colour)) {
    if (members.size() < 2 || members[0] >= p.n) continue;
    // Neighbours in number: exchanging them is likely to move little else.
    for (size_t i = 0; i + 1 < members.size() && work > 0 && !stop(); ++i) {
      if (find(members[i]) == find(members[i + 1])) continue;
      const std::vector<int> image = match(p, colours.colour, members[i], members[i + 1], work);
      if (image.empty() || !holds(p, image)) continue;
      Generator g;
      for (int m = 0; m < p.n; ++m)
        if (image[m] != m) {
          g.push_back({image[m], m});
          orbit[find(m)] = find(image[m]);
        }
      std::sort(g.begin(), g.end());
      generators_.push_back(std::move(g));
    }
  }
  std::stable_sort(generators_.begin(), generators_.end(),
                   [](const Generator& a, const Generator& b) { return a.size() < b.size(); });
}

int64_t Symmetry::canonicalise(BitSet& state, std::vector<int>* image) const {
  if (image) {
    image->resize(n_);
    std::iota(image->begin(), image->end(), 0);
  }
  std::vector<int> added;
  int64_t steps = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Generator& g : generators_) {
      // The image comes first if it has the first macro in which the two differ.
      const auto differs =
          std::find_if(g.begin(), g.end(), [&](const auto& x) { return state.has(x.first) != state.has(x.second); });
      steps += differs - g.begin() + 1;
      if (differs == g.end() || state.has(differs->first)) continue;
      steps += kMapped * static_cast<int64_t>(g.size());
      added.clear();
      for (const auto& [to, from] : g)
        if (state.has(from)) added.push_back(to);
      for (const auto& [to, from] : g) state.drop(to);
      for (int m : added) state.put(m);
      changed = true;
      if (image) {
        std::vector<int> step(n_);
        std::iota(step.begin(), step.end(), 0);
        for (const auto& [to, from] : g) step[from] = to;
        for (int& m : *image) m = step[m];
      }
    }
  }
  return steps * kStep;
}

}  // namespace tide
