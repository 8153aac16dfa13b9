// How far each op of a region runs in each stripe, and which rows of it the others read.
#include <algorithm>

#include "cut/region.h"

namespace tide {

RowRange Regions::need(const CutAxis& axis, const RowIndex& index, RowRange rows, int64_t size) const {
  if (empty(rows)) return {0, 0};
  int64_t a = rows.first, b = rows.second;
  if (axis.aligned > 1) {
    a = a / axis.aligned * axis.aligned;
    b = std::min(axis.size, ceil_div(b, axis.aligned) * axis.aligned);
  }
  int64_t first = a * index.num + index.lo, end = (b - 1) * index.num + index.hi;
  if (index.den > 1) {
    first = floor_div(first, index.den);
    end = floor_div(end, index.den);
  }
  first = std::max<int64_t>(0, first);
  end = std::min(size, end + 1);
  return first < end ? RowRange{first, end} : RowRange{0, 0};
}

RowRange Regions::rows(int op, int stripe) const {
  const std::vector<int64_t>& begins = begins_[op];
  if (!begins.empty()) return {begins[stripe], ends_[op][stripe]};
  return {stripe ? ends_[op][stripe - 1] : 0, ends_[op][stripe]};
}

// Ops that make more than they read, all of it for others of the region. What is read of such an op by one that needs
// no rows around its own counts as what that op reads, which is what is kept in its place.
void Regions::find_again() {
  for (size_t k = 0; k < cut_.size(); ++k) {
    Linked& linked = linked_[k];
    const CutOp& o = m_.ops[linked.op];
    std::vector<int>& instead = instead_[linked.op];
    instead.clear();
    for (const auto& read : o.reads) {
      const int maker = m_.tensors[read.tensor].producer;
      const auto before = std::lower_bound(cut_.begin(), cut_.begin() + static_cast<int64_t>(k), maker);
      const bool goes = before != cut_.begin() + static_cast<int64_t>(k) && *before == maker &&
                        linked_[before - cut_.begin()].again &&
                        std::all_of(read.dims.begin(), read.dims.end(), [&](const RowIndex& index) {
                          return index.axis != axes_[linked.op] || index.lo == index.hi;
                        });
      if (goes)
        instead.insert(instead.end(), instead_[maker].begin(), instead_[maker].end());
      else
        instead.push_back(read.tensor);
    }
    std::sort(instead.begin(), instead.end());
    instead.erase(std::unique(instead.begin(), instead.end()), instead.end());
    Bytes kept = 0, written = 0;
    for (const int t : instead) kept += m_.tensors[t].size;
    for (const auto& made : o.made) written += m_.tensors[made.tensor].size;
    linked.again = written > kept && !linked.outside && linked.edges < linked.edges_end;
  }
}

bool Regions::would_run_again() {
  if (!is_linked_) link();
  find_again();
  return std::any_of(linked_.begin(), linked_.begin() + static_cast<int64_t>(cut_.size()),
                     [](const Linked& linked) { return linked.again; });
}

// Where the stripes of an op begin that runs rows again: where its readers begin to read.
void Regions::find_begins(const Linked& linked) {
  std::vector<int64_t>& begins = begins_[linked.op];
  const std::vector<int64_t>& ends = ends_[linked.op];
  begins.assign(stripes_, 0);
  bool again = false;
  for (int i = 0; i < stripes_; ++i) {
    const int64_t done = i ? ends[i - 1] : 0;
    int64_t first = done;
    for (int e = linked.edges; e < linked.edges_end; ++e) {
      const RowRange needs = needs_[static_cast<int64_t>(e) * stripes_ + i];
      if (!empty(needs)) first = std::min(first, needs.first);
    }
    begins[i] = first / linked.axis->grain * linked.axis->grain;
    again = again || begins[i] < done;
  }
  if (again)
    begun_.push_back(linked.op);
  else
    begins.clear();
}

void Regions::find_ends() {
  for (size_t k = cut_.size(); k-- > 0;) pull_end(linked_[k]);
}

// The ends of an op from those of its readers.
void Regions::pull_end(const Linked& linked) {
  const CutAxis& axis = *linked.axis;
  std::vector<int64_t>& ends = ends_[linked.op];
  ends.assign(stripes_, 0);
  bool any = false;
  for (int e = linked.edges; e < linked.edges_end; ++e) {
    const Edge& edge = edges_[e];
    const std::vector<int64_t>& read = ends_[edge.reader];
    for (int i = 0; i < stripes_; ++i)
      ends[i] = std::max(ends[i], need(*edge.axis, *edge.index, {0, read[i]}, axis.size).second);
  }
  for (const int64_t end : ends) any = any || end != 0;
  if (!any) {
    for (int i = 0; i < stripes_; ++i) ends[i] = ceil_div(axis.size * (i + 1), stripes_);
  } else if (linked.leaves) {
    ends.back() = axis.size;
  }
  for (int64_t& end : ends) end = std::min(axis.size, axis.grain > 1 ? ceil_div(end, axis.grain) * axis.grain : end);
}

// How far an op may run for which only some rows of what it reads are there, of `size`.
int64_t Regions::pushed_end(const Edge& edge, int64_t there, int64_t size) const {
  const CutAxis& axis = *edge.axis;
  const RowIndex& index = *edge.index;
  there = std::max({there, int64_t{0}, floor_div(index.lo, index.den)});  // rows before the first that is read
  if (there >= size) return axis.size;
  const int64_t end = floor_div(there * index.den - 1 - index.hi, index.num) + 1;
  if (end >= axis.size) return axis.size;
  return std::max<int64_t>(0, axis.aligned > 1 ? floor_div(end, axis.aligned) * axis.aligned : end);
}

void Regions::push_ends() {
  for (size_t k = 0; k < cut_.size(); ++k) {
    const Linked& linked = linked_[k];
    const CutAxis& axis = *linked.axis;
    std::vector<int64_t>& ends = ends_[linked.op];
    ends.assign(stripes_, axis.size);
    bool reads = false;
    for (int j = linked.inputs; j < linked.inputs_end; ++j) {
      const Input& input = inputs_[j];
      const int maker = m_.tensors[input.tensor].producer;
      if (maker < begin_ || maker >= end_ || axes_[maker] < 0 || input.dim < 0) continue;
      reads = true;
      const Edge edge{linked.op, input.index, linked.axis};
      const int64_t size = m_.ops[maker].axes[axes_[maker]].size;
      const std::vector<int64_t>& there = ends_[maker];
      for (int i = 0; i < stripes_; ++i) ends[i] = std::min(ends[i], pushed_end(edge, there[i], size));
    }
    int64_t at = 0;
    for (int i = 0; i < stripes_; ++i) {
      if (!reads)
        at = ceil_div(axis.size * (i + 1), stripes_ * axis.grain) * axis.grain;
      else if (ends[i] >= axis.size)
        at = axis.size;
      else
        at = std::max(at, axis.grain > 1 ? ends[i] / axis.grain * axis.grain : ends[i]);
      ends[i] = at = std::min(at, axis.size);
    }
  }
}

void Regions::late_ends() {
  push_ends();
  for (size_t k = cut_.size(); k-- > 0;) {
    const Linked& linked = linked_[k];
    const CutOp& o = m_.ops[linked.op];
    Bytes read = 0, written = 0;
    bool any = false;
    for (const auto& given : o.reads) read += m_.tensors[given.tensor].size;
    for (const auto& made : o.made) {
      written += m_.tensors[made.tensor].size;
      any = any || !m_.tensors[made.tensor].readers.empty();
    }
    if (!(again_ && linked.again) && (written < read || linked.outside || !any)) continue;
    pushed_ = ends_[linked.op];
    pull_end(linked);
    for (int i = 0; i < stripes_; ++i) ends_[linked.op][i] = std::min(ends_[linked.op][i], pushed_[i]);
  }
}

void Regions::find_needs(int at, int64_t size) {
  const Edge& edge = edges_[at];
  RowRange* needs = needs_.data() + static_cast<int64_t>(at) * stripes_;
  for (int i = 0; i < stripes_; ++i) needs[i] = need(*edge.axis, *edge.index, rows(edge.reader, i), size);
}

// What would be a part of rows that nobody reads runs with the next part, or not at all.
void Regions::skip_unread(const Linked& linked) {
  if (linked.outside) return;
  const int64_t size = linked.axis->size;
  for (int e = linked.edges; e < linked.edges_end; ++e) {
    const RowRange* needs = needs_.data() + static_cast<int64_t>(e) * stripes_;
    int64_t read = 0;
    for (int i = 0; i < stripes_; ++i)
      if (needs[i].first <= read) read = std::max(read, needs[i].second);
    if (read >= size) return;
  }
  spans_.clear();
  for (int64_t k = static_cast<int64_t>(linked.edges) * stripes_; k < static_cast<int64_t>(linked.edges_end) * stripes_;
       ++k)
    if (!empty(needs_[k])) spans_.push_back(needs_[k]);
  if (spans_.empty()) return;
  if (!std::is_sorted(spans_.begin(), spans_.end())) std::sort(spans_.begin(), spans_.end());
  size_t kept = 0;
  for (size_t k = 1; k < spans_.size(); ++k) {
    if (spans_[k].first <= spans_[kept].second)
      spans_[kept].second = std::max(spans_[kept].second, spans_[k].second);
    else
      spans_[++kept] = spans_[k];
  }
  spans_.resize(kept + 1);
  size_t k = 0;
  int64_t at = 0;
  for (int64_t& end : ends_[linked.op]) {
    while (k < spans_.size() && spans_[k].second <= at) ++k;
    if (k < spans_.size() && spans_[k].first < end) at = std::max(at, end);
    end = at;
  }
}

// What the parts of the region read of a tensor, and when for the last time.
void Regions::find_held(const Output& output) {
  Held& held = held_[output.tensor];
  held.lows.assign(stripes_, m_.tensors[output.tensor].shape[output.dim]);
  held.lasts.assign(stripes_, -1);
  for (int e = output.edges; e < output.edges_end; ++e) {
    const int reader = edges_[e].reader;
    const RowRange* needs = needs_.data() + static_cast<int64_t>(e) * stripes_;
    for (int i = 0; i < stripes_; ++i) {
      if (!empty(needs[i])) held.lows[i] = std::min(held.lows[i], needs[i].first);
      if (!empty(rows(reader, i))) held.lasts[i] = std::max(held.lasts[i], reader);
    }
  }
  for (int i = stripes_ - 2; i >= 0; --i) held.lows[i] = std::min(held.lows[i], held.lows[i + 1]);
  if (!begins_[m_.tensors[output.tensor].producer].empty())
    held.lows.assign(stripes_, m_.tensors[output.tensor].shape[output.dim]);
}

// From the last op to the first, whose readers' ends are as they stay.
void Regions::settle() {
  needs_.resize(edges_.size() * stripes_);
  for (size_t k = cut_.size(); k-- > 0;) {
    const Linked& linked = linked_[k];
    for (int e = linked.edges; e < linked.edges_end; ++e) find_needs(e, linked.axis->size);
    skip_unread(linked);
    if (again_ && linked.again) find_begins(linked);
    for (int j = linked.outputs; j < linked.outputs_end; ++j) {
      const Output& output = outputs_[j];
      if (output.dim < 0) continue;
      const int64_t size = m_.tensors[output.tensor].shape[output.dim];
      for (int e = output.edges; size != linked.axis->size && e < output.edges_end; ++e) find_needs(e, size);
      find_held(output);
    }
  }
}

}  // namespace tide
