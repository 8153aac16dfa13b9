#include "cut/grown.h"

#include <algorithm>
#include <set>

namespace tide {

bool Growth::take(int op, int axis) {
  if (axes_[op] >= 0) return axes_[op] == axis;
  if (taken_[op] || axis < 0 || m_.ops[op].axes[axis].grain <= 0) return false;
  axes_[op] = axis;
  members_.push_back(op);
  return static_cast<int>(members_.size()) <= longest_;
}

bool Growth::take_readers(int tensor) {
  const int dim = dim_along(m_, axes_, m_.tensors[tensor].producer, tensor);
  if (dim < 0) return false;
  for (const int reader : m_.tensors[tensor].readers) {
    bool seen = false;
    for (const auto& read : m_.ops[reader].reads) {
      if (read.tensor != tensor) continue;
      seen = true;
      if (dim >= static_cast<int>(read.dims.size())) return false;
      const RowIndex& index = read.dims[dim];
      if (index.axis < 0 || index.num <= 0 || !take(reader, index.axis)) return false;
    }
    if (!seen) return false;  // a body reads it
  }
  return true;
}

bool Growth::take_maker(int tensor) {
  const int maker = m_.tensors[tensor].producer;
  for (const int reader : m_.tensors[tensor].readers)
    for (const auto& read : m_.ops[reader].reads) {
      if (read.tensor != tensor) continue;
      for (size_t d = 0; d < read.dims.size(); ++d) {
        if (read.dims[d].axis != axes_[reader]) continue;
        for (const auto& made : m_.ops[maker].made)
          if (made.tensor == tensor) return d < made.axes.size() && take(maker, made.axes[d]);
      }
    }
  return false;
}

// What has to run between members becomes one: it reads a part of what one makes.
bool Growth::fill() {
  const auto [low, high] = std::minmax_element(members_.begin(), members_.end());
  const int begin = *low, end = *high + 1;
  std::vector<char> needs(end - begin), needed(end - begin);
  const auto marked = [&](const std::vector<char>& marks, int op) {
    return op >= begin && op < end && (marks[op - begin] || axes_[op] >= 0);
  };
  for (int op = begin; op < end; ++op)
    for (const int earlier : precedence_.before(op)) needs[op - begin] |= marked(needs, earlier);
  for (int op = end - 1; op >= begin; --op)
    for (const int later : precedence_.after(op)) needed[op - begin] |= marked(needed, later);
  for (int op = begin; op < end; ++op) {
    if (axes_[op] >= 0 || !needs[op - begin] || !needed[op - begin]) continue;
    int axis = -1;
    for (const auto& read : m_.ops[op].reads) {
      const int maker = m_.tensors[read.tensor].producer;
      if (maker < 0 || axes_[maker] < 0) continue;
      const int dim = dim_along(m_, axes_, maker, read.tensor);
      if (dim < 0 || dim >= static_cast<int>(read.dims.size())) return false;
      axis = read.dims[dim].axis;
    }
    if (!take(op, axis)) return false;
  }
  return true;
}

bool Growth::agree() const {
  return std::all_of(members_.begin(), members_.end(), [&](int op) { return agrees(m_, axes_, op); });
}

bool Growth::read_by_members_only(int tensor) const {
  const auto& readers = m_.tensors[tensor].readers;
  return std::all_of(readers.begin(), readers.end(), [&](int reader) { return axes_[reader] >= 0; });
}

std::vector<Growth::Edge> Growth::edges() const {
  std::vector<Edge> result;
  std::set<int> seen;
  for (const int op : members_) {
    for (const auto& made : m_.ops[op].made)
      if (dim_along(m_, axes_, op, made.tensor) >= 0 && !m_.tensors[made.tensor].readers.empty() &&
          !read_by_members_only(made.tensor) && seen.insert(made.tensor).second)
        result.push_back({made.tensor, true});
    for (const auto& read : m_.ops[op].reads) {
      const CutTensor& tensor = m_.tensors[read.tensor];
      const bool along = std::any_of(read.dims.begin(), read.dims.end(),
                                     [&](const RowIndex& index) { return index.axis == axes_[op]; });
      if (along && tensor.producer >= 0 && axes_[tensor.producer] < 0 && seen.insert(read.tensor).second)
        result.push_back({read.tensor, false});
    }
  }
  std::stable_sort(result.begin(), result.end(),
                   [&](const Edge& a, const Edge& b) { return m_.tensors[a.tensor].size > m_.tensors[b.tensor].size; });
  return result;
}

void Growth::forget(size_t members) {
  for (size_t k = members; k < members_.size(); ++k) axes_[members_[k]] = -1;
  members_.resize(members);
}

bool Growth::extend(const Edge& edge) {
  const size_t before = members_.size();
  if ((edge.behind || take_maker(edge.tensor)) && take_readers(edge.tensor) && fill() && agree()) return true;
  forget(before);
  return false;
}

std::vector<GrownSet> Growth::sets(int tensor, int dim) {
  forget(0);
  const int maker = m_.tensors[tensor].producer;
  if (maker < 0) return {};
  int axis = -1;
  for (const auto& made : m_.ops[maker].made)
    if (made.tensor == tensor) axis = made.axes[dim];
  std::vector<GrownSet> result;
  if (!take(maker, axis) || !extend({tensor, true})) return result;
  std::set<std::pair<int, bool>> refused;
  for (bool grew = true; grew;) {
    GrownSet set{members_, -1};
    std::sort(set.ops.begin(), set.ops.end());
    set.axis = axes_[set.ops.back()];
    result.push_back(std::move(set));
    grew = false;
    for (const Edge& edge : edges()) {
      if (refused.count({edge.tensor, edge.behind})) continue;
      if (extend(edge)) {
        grew = true;
        break;
      }
      refused.insert({edge.tensor, edge.behind});
    }
  }
  return result;
}

}  // namespace tide
