#include "cut/region.h"

#include <algorithm>

#include "cut/rows.h"

namespace tide {

Regions::Regions(const CutModel& model)
    : m_(model),
      axes_(model.ops.size(), -1),
      ends_(model.ops.size()),
      begins_(model.ops.size()),
      again_(model.ops.size(), 0),
      instead_(model.ops.size()),
      ending_(model.ops.size()),
      held_(model.tensors.size()),
      sums_(model.tensors.size()),
      room_of_(model.storages.size(), -1) {}

int dim_along(const CutModel& model, const std::vector<int>& axes, int op, int tensor) {
  for (const auto& made : model.ops[op].made)
    if (made.tensor == tensor)
      for (size_t d = 0; d < made.axes.size(); ++d)
        if (made.axes[d] == axes[op]) return static_cast<int>(d);
  return -1;
}

bool agrees(const CutModel& model, const std::vector<int>& axes, int op) {
  for (const auto& read : model.ops[op].reads) {
    int along = -1, count = 0;
    for (size_t d = 0; d < read.dims.size(); ++d) {
      if (read.dims[d].axis != axes[op]) continue;
      if (read.dims[d].num <= 0) return false;
      along = static_cast<int>(d);
      ++count;
    }
    if (count > 1) return false;
    const int maker = model.tensors[read.tensor].producer;
    if (maker < 0 || axes[maker] < 0) continue;
    const int cut = dim_along(model, axes, maker, read.tensor);
    if (cut < 0 || count != 1 || along != cut) return false;
  }
  return true;
}

bool is_handed(const CutModel& model, int tensor, int dim) {
  const auto& dims = model.tensors[tensor].handed;
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

void Regions::hand(const Pieces& coming, const Pieces& leaving) {
  coming_ = coming;
  leaving_ = leaving;
}

bool Regions::among(const Pieces& pieces, int tensor, int dim) {
  return std::find(pieces.begin(), pieces.end(), InPieces{tensor, dim}) != pieces.end();
}

bool Regions::want(int op, int axis) {
  if (axes_[op] >= 0) return axes_[op] == axis;
  axes_[op] = axis;
  queue_.push_back(op);
  return true;
}

bool Regions::readers_of(int op) {
  for (const auto& made : m_.ops[op].made) {
    const int d = dim_along(m_, axes_, op, made.tensor);
    for (const int reader : m_.tensors[made.tensor].readers) {
      if (reader < begin_ || reader >= end_) continue;
      bool seen = false;
      for (const auto& read : m_.ops[reader].reads) {
        if (read.tensor != made.tensor) continue;
        seen = true;
        if (d < 0 || d >= static_cast<int>(read.dims.size())) return false;
        const RowIndex& index = read.dims[d];
        if (index.axis < 0 || index.num <= 0 || !want(reader, index.axis)) return false;
      }
      if (!seen) return false;
    }
  }
  return true;
}

bool Regions::grow(int begin, int end, int seed, int axis) {
  for (const int op : cut_) axes_[op] = -1;
  cut_.clear();
  begin_ = begin;
  end_ = end;
  queue_.assign(1, seed);
  axes_[seed] = axis;
  bool fits = true;
  for (size_t k = 0; fits && k < queue_.size(); ++k) {
    const int op = queue_[k];
    fits = m_.ops[op].axes[axes_[op]].grain > 0 && readers_of(op);
    for (const auto& read : m_.ops[op].reads) {
      const int maker = m_.tensors[read.tensor].producer;
      if (!fits || maker < begin_ || maker >= end_) continue;
      for (const auto& made : m_.ops[maker].made) {
        if (made.tensor != read.tensor) continue;
        for (size_t d = 0; d < read.dims.size(); ++d) {
          if (read.dims[d].axis != axes_[op] || made.axes[d] < 0) continue;
          if (m_.ops[maker].axes[made.axes[d]].grain > 0) fits = fits && want(maker, made.axes[d]);
        }
      }
    }
  }
  cut_ = queue_;
  std::sort(cut_.begin(), cut_.end());
  if (fits) fits = std::all_of(cut_.begin(), cut_.end(), [&](int op) { return agrees(m_, axes_, op); });
  return fits;
}

RowRange Regions::need(int op, const RowIndex& index, RowRange rows, int64_t size) const {
  if (empty(rows)) return {0, 0};
  const CutAxis& axis = m_.ops[op].axes[axes_[op]];
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
  if (!begins_[op].empty()) return {begins_[op][stripe], ends_[op][stripe]};
  return {stripe ? ends_[op][stripe - 1] : 0, ends_[op][stripe]};
}

bool Regions::stays(int op) const {
  bool read = false;
  for (const auto& made : m_.ops[op].made) {
    const CutTensor& tensor = m_.tensors[made.tensor];
    if (tensor.output) return false;
    for (const int reader : tensor.readers) {
      if (reader < begin_ || reader >= end_ || axes_[reader] < 0) return false;
      read = true;
    }
  }
  return read;
}

// Ops that make more than they read, all of it for others of the region. What is read of such an op by one that needs
// no rows around its own counts as what that op reads, which is what is kept in its place.
void Regions::find_again() {
  for (const int op : cut_) {
    std::vector<int>& instead = instead_[op];
    instead.clear();
    for (const auto& read : m_.ops[op].reads) {
      const int maker = m_.tensors[read.tensor].producer;
      const bool inside = maker >= begin_ && maker < end_ && axes_[maker] >= 0;
      const bool alone = std::all_of(read.dims.begin(), read.dims.end(), [&](const RowIndex& index) {
        return index.axis != axes_[op] || index.lo == index.hi;
      });
      if (inside && again_[maker] && alone)
        instead.insert(instead.end(), instead_[maker].begin(), instead_[maker].end());
      else
        instead.push_back(read.tensor);
    }
    std::sort(instead.begin(), instead.end());
    instead.erase(std::unique(instead.begin(), instead.end()), instead.end());
    Bytes kept = 0, written = 0;
    for (const int t : instead) kept += m_.tensors[t].size;
    for (const auto& made : m_.ops[op].made) written += m_.tensors[made.tensor].size;
    again_[op] = written > kept && stays(op);
  }
}

bool Regions::would_run_again() {
  find_again();
  return std::any_of(cut_.begin(), cut_.end(), [&](int op) { return again_[op] != 0; });
}

// Where the stripes of ops begin that run rows again: where their readers begin to read.
void Regions::find_begins() {
  for (auto at = cut_.rbegin(); at != cut_.rend(); ++at) {
    const int op = *at;
    if (!again_[op]) continue;
    const CutAxis& axis = m_.ops[op].axes[axes_[op]];
    std::vector<int64_t> begins(stripes_, 0);
    for (int i = 1; i < stripes_; ++i) begins[i] = ends_[op][i - 1];
    for (const auto& made : m_.ops[op].made)
      for (const int reader : m_.tensors[made.tensor].readers)
        for (const auto& read : m_.ops[reader].reads)
          for (const auto& index : read.dims) {
            if (read.tensor != made.tensor || index.axis != axes_[reader]) continue;
            for (int i = 0; i < stripes_; ++i) {
              const RowRange needed = need(reader, index, rows(reader, i), axis.size);
              if (!empty(needed)) begins[i] = std::min(begins[i], needed.first);
            }
          }
    bool again = false;
    for (int i = 0; i < stripes_; ++i) {
      begins[i] = begins[i] / axis.grain * axis.grain;
      again = again || begins[i] < (i ? ends_[op][i - 1] : 0);
    }
    if (again) begins_[op] = std::move(begins);
  }
}

void Regions::find_ends() {
  for (auto at = cut_.rbegin(); at != cut_.rend(); ++at) pull_end(*at);
}

// The ends of an op from those of its readers.
void Regions::pull_end(int op) {
  const CutAxis& axis = m_.ops[op].axes[axes_[op]];
  std::vector<int64_t>& ends = ends_[op];
  ends.assign(stripes_, 0);
  bool leaves = false;
  for (const auto& made : m_.ops[op].made) {
    bool inside = false;
    for (const int reader : m_.tensors[made.tensor].readers) {
      if (reader < begin_ || reader >= end_ || axes_[reader] < 0) {
        leaves = true;
        continue;
      }
      inside = true;
      for (const auto& read : m_.ops[reader].reads) {
        if (read.tensor != made.tensor) continue;
        for (const auto& index : read.dims) {
          if (index.axis != axes_[reader]) continue;
          for (int i = 0; i < stripes_; ++i)
            ends[i] = std::max(ends[i], need(reader, index, {0, ends_[reader][i]}, axis.size).second);
        }
      }
    }
    leaves = leaves || !inside || m_.tensors[made.tensor].output;
  }
  if (std::all_of(ends.begin(), ends.end(), [](int64_t end) { return end == 0; })) {
    for (int i = 0; i < stripes_; ++i) ends[i] = ceil_div(axis.size * (i + 1), stripes_);
  } else if (leaves) {
    ends.back() = axis.size;
  }
  for (int64_t& end : ends) end = std::min(axis.size, ceil_div(end, axis.grain) * axis.grain);
}

void Regions::push_ends() {
  for (const int op : cut_) {
    const CutAxis& axis = m_.ops[op].axes[axes_[op]];
    std::vector<int64_t>& ends = ends_[op];
    ends.assign(stripes_, 0);
    std::vector<std::pair<const RowIndex*, int>> reads;  // what the parts of an op of the region are read by
    for (const auto& read : m_.ops[op].reads) {
      const int maker = m_.tensors[read.tensor].producer;
      if (maker < begin_ || maker >= end_ || axes_[maker] < 0) continue;
      for (const auto& index : read.dims)
        if (index.axis == axes_[op]) reads.emplace_back(&index, maker);
    }
    int64_t at = 0;
    for (int i = 0; i < stripes_; ++i) {
      if (reads.empty()) {
        at = ceil_div(axis.size * (i + 1), stripes_ * axis.grain) * axis.grain;
      } else {
        const auto there = [&](int64_t end) {
          return std::all_of(reads.begin(), reads.end(), [&](const auto& read) {
            const int64_t size = m_.ops[read.second].axes[axes_[read.second]].size;
            return need(op, *read.first, {0, end}, size).second <= ends_[read.second][i];
          });
        };
        while (at < axis.size && there(std::min(axis.size, at + axis.grain))) at += axis.grain;
      }
      ends[i] = at = std::min(at, axis.size);
    }
  }
}

void Regions::late_ends() {
  push_ends();
  for (auto at = cut_.rbegin(); at != cut_.rend(); ++at) {
    const CutOp& o = m_.ops[*at];
    Bytes read = 0, written = 0;
    for (const auto& given : o.reads) read += m_.tensors[given.tensor].size;
    for (const auto& made : o.made) written += m_.tensors[made.tensor].size;
    if (!again_[*at] && (written < read || !stays(*at))) continue;
    const std::vector<int64_t> pushed = ends_[*at];
    pull_end(*at);
    for (int i = 0; i < stripes_; ++i) ends_[*at][i] = std::min(ends_[*at][i], pushed[i]);
  }
}

// Rows of what an op makes that parts of the region read, in rising order and apart; none if others read it, too.
std::vector<RowRange> Regions::read_rows(int op) const {
  std::vector<RowRange> spans;
  const int64_t size = m_.ops[op].axes[axes_[op]].size;
  for (const auto& made : m_.ops[op].made) {
    if (m_.tensors[made.tensor].output) return {};
    for (const int reader : m_.tensors[made.tensor].readers) {
      if (reader < begin_ || reader >= end_ || axes_[reader] < 0) return {};
      for (const auto& read : m_.ops[reader].reads)
        for (const auto& index : read.dims) {
          if (read.tensor != made.tensor || index.axis != axes_[reader]) continue;
          for (int i = 0; i < stripes_; ++i) {
            const RowRange needed = need(reader, index, rows(reader, i), size);
            if (!empty(needed)) spans.push_back(needed);
          }
        }
    }
  }
  if (!std::is_sorted(spans.begin(), spans.end())) std::sort(spans.begin(), spans.end());
  size_t kept = 0;
  for (size_t k = 1; k < spans.size(); ++k) {
    if (spans[k].first <= spans[kept].second)
      spans[kept].second = std::max(spans[kept].second, spans[k].second);
    else
      spans[++kept] = spans[k];
  }
  if (!spans.empty()) spans.resize(kept + 1);
  return spans;
}

// What would be a part of rows that nobody reads runs with the next part, or not at all.
void Regions::skip_unread() {
  for (auto op = cut_.rbegin(); op != cut_.rend(); ++op) {
    const std::vector<RowRange> spans = read_rows(*op);
    if (spans.empty()) continue;
    size_t k = 0;
    int64_t at = 0;
    for (int64_t& end : ends_[*op]) {
      while (k < spans.size() && spans[k].second <= at) ++k;
      if (k < spans.size() && spans[k].first < end) at = std::max(at, end);
      end = at;
    }
  }
}

int64_t Regions::most_stripes(Pace pace) const {
  int64_t most = 0;
  const auto count = [&](int op) {
    const CutAxis& axis = m_.ops[op].axes[axes_[op]];
    most = std::max(most, ceil_div(axis.size, axis.grain));
  };
  for (const int op : cut_) {
    bool end = true;
    if (!pulls(pace)) {
      for (const auto& read : m_.ops[op].reads) {
        const int maker = m_.tensors[read.tensor].producer;
        end = end && (maker < begin_ || maker >= end_ || axes_[maker] < 0);
      }
    } else {
      for (const auto& made : m_.ops[op].made)
        for (const int reader : m_.tensors[made.tensor].readers)
          end = end && (reader < begin_ || reader >= end_ || axes_[reader] < 0);
    }
    if (end) count(op);
  }
  return most;
}

void Regions::find_held() {
  for (const int t : held_ids_) held_[t].dim = -1;
  held_ids_.clear();
  for (const int op : cut_) {
    for (const auto& made : m_.ops[op].made) {
      const int t = made.tensor, d = dim_along(m_, axes_, op, t);
      sums_[t] = {};
      if (d < 0) continue;
      Held& held = held_[t];
      held.dim = d;
      held.leaves = m_.tensors[t].output;
      held.pieces.clear();
      held.bytes = 0;
      held.fresh = held.kept = held.have = {};
      held.lows.assign(stripes_, 0);
      held.lasts.assign(stripes_, -1);
      held_ids_.push_back(t);
      const int64_t size = m_.tensors[t].shape[d];
      int64_t low = size;
      for (int i = stripes_ - 1; i >= 0; --i) {
        for (const int reader : m_.tensors[t].readers) {
          if (reader < begin_ || reader >= end_ || axes_[reader] < 0) {
            held.leaves = true;
            continue;
          }
          const RowRange part = rows(reader, i);
          if (empty(part)) continue;
          held.lasts[i] = std::max(held.lasts[i], reader);
          for (const auto& read : m_.ops[reader].reads)
            for (const auto& index : read.dims)
              if (read.tensor == t && index.axis == axes_[reader]) {
                const RowRange needed = need(reader, index, part, size);
                if (!empty(needed)) low = std::min(low, needed.first);
              }
        }
        held.lows[i] = begins_[op].empty() ? low : size;
      }
    }
  }
}

Bytes Regions::throughout(int begin, int end) const {
  Bytes bytes = m_.before[begin];
  for (int op = begin; op < end; ++op)
    for (const int s : m_.ops[op].touched) {
      const CutStorage& storage = m_.storages[s];
      if (storage.first < begin && storage.last < end && storage.last == op) bytes -= storage.size;
    }
  return bytes;
}

void Regions::recount(int t) {
  Held& held = held_[t];
  if (m_.ops[m_.tensors[t].producer].view) return;  // in memory that is another's
  Bytes bytes = held.kept.piece < 0 ? 0 : pieces_[held.kept.piece].size;
  if (held.leaves && !m_.transfers) {
    for (const int at : held.pieces) bytes += at == held.kept.piece ? 0 : pieces_[at].size;
  } else if (held.fresh.piece >= 0) {
    bytes += pieces_[held.fresh.piece].size;
  }
  held_bytes_ += bytes - held.bytes;
  held.bytes = bytes;
}

}  // namespace tide
