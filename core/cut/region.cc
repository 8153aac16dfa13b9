#include "cut/region.h"

#include <algorithm>
#include <limits>

namespace tide {

namespace {

constexpr int64_t kFar = int64_t{1} << 62;

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q * b > a ? q - 1 : q;
}

int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

bool empty(RowRange rows) { return rows.first >= rows.second; }

}  // namespace

Regions::Regions(const CutModel& model)
    : m_(model),
      axes_(model.ops.size(), -1),
      ends_(model.ops.size()),
      held_(model.tensors.size()),
      sums_(model.tensors.size()),
      room_of_(model.storages.size(), -1) {}

int Regions::dim_of(int op, int tensor) const {
  for (const auto& made : m_.ops[op].made)
    if (made.tensor == tensor)
      for (size_t d = 0; d < made.axes.size(); ++d)
        if (made.axes[d] == axes_[op]) return static_cast<int>(d);
  return -1;
}

bool Regions::want(int op, int axis) {
  if (axes_[op] >= 0) return axes_[op] == axis;
  axes_[op] = axis;
  queue_.push_back(op);
  return true;
}

bool Regions::readers_of(int op) {
  for (const auto& made : m_.ops[op].made) {
    const int d = dim_of(op, made.tensor);
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

bool Regions::agree(int op) const {
  for (const auto& read : m_.ops[op].reads) {
    int along = -1, count = 0;
    for (size_t d = 0; d < read.dims.size(); ++d) {
      if (read.dims[d].axis != axes_[op]) continue;
      if (read.dims[d].num <= 0) return false;
      along = static_cast<int>(d);
      ++count;
    }
    if (count > 1) return false;
    const int maker = m_.tensors[read.tensor].producer;
    if (maker < begin_ || maker >= end_ || axes_[maker] < 0) continue;
    const int cut = dim_of(maker, read.tensor);
    if (cut < 0 || count != 1 || along != cut) return false;
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
  if (fits) fits = std::all_of(cut_.begin(), cut_.end(), [&](int op) { return agree(op); });
  return fits;
}

RowRange Regions::need(int op, const RowIndex& index, RowRange rows, int64_t size) const {
  if (empty(rows)) return {0, 0};
  const CutAxis& axis = m_.ops[op].axes[axes_[op]];
  const int64_t a = rows.first / axis.aligned * axis.aligned;
  const int64_t b = std::min(axis.size, ceil_div(rows.second, axis.aligned) * axis.aligned);
  const int64_t first = std::max<int64_t>(0, floor_div(a * index.num + index.lo, index.den));
  const int64_t end = std::min(size, floor_div((b - 1) * index.num + index.hi, index.den) + 1);
  return first < end ? RowRange{first, end} : RowRange{0, 0};
}

RowRange Regions::rows(int op, int stripe) const { return {stripe ? ends_[op][stripe - 1] : 0, ends_[op][stripe]}; }

void Regions::find_ends() {
  for (auto at = cut_.rbegin(); at != cut_.rend(); ++at) {
    const int op = *at;
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

int64_t Regions::most_stripes(bool push) const {
  int64_t most = 0;
  const auto count = [&](int op) {
    const CutAxis& axis = m_.ops[op].axes[axes_[op]];
    most = std::max(most, ceil_div(axis.size, axis.grain));
  };
  for (const int op : cut_) {
    bool end = true;
    if (push) {
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
      const int t = made.tensor, d = dim_of(op, t);
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
        held.lows[i] = low;
      }
    }
  }
}

void Regions::find_throughout() {
  throughout_ = m_.before[begin_];
  for (int op = begin_; op < end_; ++op)
    for (const int s : m_.ops[op].touched) {
      const CutStorage& storage = m_.storages[s];
      if (storage.first >= begin_ || storage.last >= end_ || storage.last != op) continue;
      throughout_ -= storage.size;
    }
}

void Regions::recount(int t) {
  Held& held = held_[t];
  if (m_.ops[m_.tensors[t].producer].view) return;  // in memory that is another's
  Bytes bytes = held.kept.piece < 0 ? 0 : pieces_[held.kept.piece].size;
  if (held.leaves) {
    for (const int at : held.pieces) bytes += at == held.kept.piece ? 0 : pieces_[at].size;
  } else if (held.fresh.piece >= 0) {
    bytes += pieces_[held.fresh.piece].size;
  }
  held_bytes_ += bytes - held.bytes;
  held.bytes = bytes;
}

Bytes Regions::bytes(int tensor, int dim, RowRange rows) const {
  const CutTensor& t = m_.tensors[tensor];
  return ceil_div(t.size * (rows.second - rows.first), std::max<int64_t>(1, t.shape[dim]));
}

int Regions::piece(Bytes size) {
  rooms_.push_back({size, -2, -2, false, true});
  pieces_.push_back({static_cast<int>(rooms_.size()) - 1, size});
  return static_cast<int>(pieces_.size()) - 1;
}

int Regions::room_of(int storage) {
  int& room = room_of_[storage];
  if (room < 0) {
    const CutStorage& s = m_.storages[storage];
    const bool there = s.first < begin_;
    room = static_cast<int>(rooms_.size());
    rooms_.push_back({s.size, there ? -1 : -2, -2, s.last >= end_, false});
    roomed_.push_back(storage);
    if (there) local_ += s.size;
  }
  return room;
}

int Regions::piece_of_storage(int storage, Bytes size) {
  if (storage < 0) {  // the caller's memory, which costs nothing
    const int at = piece(0);
    pieces_[at].size = size;
    return at;
  }
  pieces_.push_back({room_of(storage), size});
  return static_cast<int>(pieces_.size()) - 1;
}

Bytes Regions::workspace(int op, RowRange part) const {
  for (const auto& [rows, bytes] : m_.ops[op].axes[axes_[op]].workspace)
    if (part.second - part.first <= rows) return bytes;
  return m_.ops[op].workspace;
}

void Regions::close(Bytes workspace) { steps_.push_back({touched_.size(), overwrites_.size(), workspace}); }

int Regions::slice(int from, int tensor, int dim, RowRange rows) {
  for (const Slice& s : slices_)
    if (s.from == from && s.dim == dim && s.rows == rows) return s.piece;
  const int read = from >= 0 ? from : piece_of_storage(m_.tensors[tensor].storage, m_.tensors[tensor].size);
  const int result = piece(bytes(tensor, dim, rows));
  touch(read);
  touch(result);
  close(0);
  slices_.push_back({from, dim, rows, result});
  return result;
}

void Regions::have(int t) {
  Held& held = held_[t];
  if (held.have.piece >= 0) return;
  if (held.kept.piece < 0 || held.fresh.piece < 0) {
    held.have = held.fresh.piece < 0 ? held.kept : held.fresh;
    return;
  }
  const RowRange both{held.kept.first, held.fresh.end};
  const int joined = piece(bytes(t, held.dim, both));
  touch(held.kept.piece);
  touch(held.fresh.piece);
  touch(joined);
  close(0);
  held.have = {joined, both.first, both.second};
}

Regions::Rows Regions::around(int t, RowRange rows) {
  const Held& held = held_[t];
  const Rows* found = nullptr;
  for (const Rows* there : {&held.have, &held.fresh, &held.kept}) {
    if (there->piece < 0 || there->first > rows.first || rows.second > there->end) continue;
    if (RowRange{there->first, there->end} == rows) return *there;
    if (!found) found = there;
  }
  if (found) return *found;
  have(t);
  return held.have;
}

void Regions::keep(int t, int stripe) {
  Held& held = held_[t];
  const int64_t end = std::max(held.kept.piece < 0 ? 0 : held.kept.end, held.fresh.piece < 0 ? 0 : held.fresh.end);
  const int64_t later = stripe + 1 < stripes_ ? held.lows[stripe + 1] : kFar;
  if (later >= end) {
    held.kept = held.fresh = held.have = {};
    recount(t);
    return;
  }
  const int64_t first = std::min(held.kept.piece < 0 ? end : held.kept.first, held.fresh.piece < 0 ? end : held.fresh.first);
  const RowRange left{std::max(later, first), end};
  Rows kept = around(t, left);
  if (left != RowRange{kept.first, kept.end}) kept = {slice(kept.piece, t, held.dim, left), left.first, left.second};
  held.kept = kept;
  held.fresh = held.have = {};
  recount(t);
}

int Regions::given(int op, const CutRead& read, RowRange rows) {
  const int t = read.tensor;
  const CutTensor& tensor = m_.tensors[t];
  int dim = -1;
  RowRange part{0, 0};
  for (size_t d = 0; d < read.dims.size(); ++d)
    if (read.dims[d].axis == axes_[op]) {
      dim = static_cast<int>(d);
      part = need(op, read.dims[d], rows, tensor.shape[d]);
    }
  const Held& held = held_[t];
  const bool inside =
      held.dim >= 0 && tensor.producer >= begin_ && tensor.producer < end_ && axes_[tensor.producer] >= 0;
  if (dim >= 0 && empty(part)) return -1;
  if (!inside) {
    if (dim < 0 || part == RowRange{0, tensor.shape[dim]}) return piece_of_storage(tensor.storage, tensor.size);
    return slice(-1 - t, t, dim, part);
  }
  const Rows got = around(t, part);
  return part == RowRange{got.first, got.end} ? got.piece : slice(got.piece, t, held.dim, part);
}

void Regions::part(int op, int stripe) {
  const CutOp& o = m_.ops[op];
  const CutAxis& axis = o.axes[axes_[op]];
  const RowRange part = rows(op, stripe);
  std::vector<int> inputs;
  inputs.reserve(o.reads.size());
  for (const auto& read : o.reads) inputs.push_back(given(op, read, part));
  std::vector<int> outputs;
  for (const auto& made : o.made) {
    const CutTensor& tensor = m_.tensors[made.tensor];
    const int d = axis.reduced ? -1 : dim_of(op, made.tensor);
    const Bytes size = d < 0 ? tensor.size : bytes(made.tensor, d, part);
    int output;
    if (part == RowRange{0, axis.size}) {
      output = piece_of_storage(tensor.storage, size);
    } else {
      output = piece(size);
      if (o.view)
        for (size_t k = 0; k < inputs.size(); ++k)
          if (o.reads[k].first && inputs[k] >= 0 && pieces_[inputs[k]].size == size) {
            rooms_.pop_back();
            pieces_[output].room = pieces_[inputs[k]].room;
          }
    }
    outputs.push_back(output);
  }
  for (const int at : inputs)
    if (at >= 0) touch(at);
  for (const int at : outputs) touch(at);
  if (outputs.size() == 1)
    for (size_t k = 0; k < inputs.size(); ++k)
      if (o.reads[k].may_overwrite && inputs[k] >= 0) {
        const Bytes size = pieces_[outputs[0]].size;
        const int room = pieces_[inputs[k]].room;
        if (rooms_[room].own && rooms_[room].size == size && pieces_[inputs[k]].size == size &&
            room != pieces_[outputs[0]].room)
          overwrites_.emplace_back(room, size);
      }
  close(workspace(op, part));
  for (size_t j = 0; j < outputs.size(); ++j) {
    const int t = o.made[j].tensor;
    if (axis.reduced) {
      add(t, outputs[j], op, part);
    } else {
      Held& held = held_[t];
      held.pieces.push_back(outputs[j]);
      held.fresh = {outputs[j], part.first, part.second};
      held.have = {};
      recount(t);
    }
  }
}

void Regions::add(int t, int at, int op, RowRange part) {
  const int64_t size = m_.ops[op].axes[axes_[op]].size;
  Sum& sum = sums_[t];
  if (sum.piece < 0) {
    sum = {at, part.second};
    held_bytes_ += pieces_[at].size;
    return;
  }
  const CutTensor& tensor = m_.tensors[t];
  const int result = part.second == size ? piece_of_storage(tensor.storage, tensor.size) : piece(tensor.size);
  touch(sum.piece);
  touch(at);
  touch(result);
  for (const int operand : {sum.piece, at})
    if (m_.sums_in_place) overwrites_.emplace_back(pieces_[operand].room, tensor.size);
  close(0);
  sum = {result, part.second};
}

void Regions::whole(int op) {
  const CutOp& o = m_.ops[op];
  for (const int s : o.touched) touched_.push_back(room_of(s));
  for (const auto& [s, saving] : o.overwrites) overwrites_.emplace_back(room_of(s), saving);
  close(o.workspace);
}

RegionCost Regions::cost(int stripes, bool push, Bytes limit) {
  stripes_ = stripes;
  for (const int s : roomed_) room_of_[s] = -1;
  roomed_.clear();
  rooms_.clear();
  pieces_.clear();
  steps_.clear();
  touched_.clear();
  overwrites_.clear();
  slices_.clear();
  local_ = 0;
  if (push)
    push_ends();
  else
    find_ends();
  find_held();
  find_throughout();
  held_bytes_ = 0;
  for (int op = begin_; op < end_; ++op)
    if (axes_[op] < 0) whole(op);
  for (int i = 0; i < stripes; ++i) {
    for (const int op : cut_) {
      if (!empty(rows(op, i))) part(op, i);
      for (const int t : held_ids_)
        if (held_[t].lasts[i] == op) keep(t, i);
      if (throughout_ + held_bytes_ > limit) return {throughout_ + held_bytes_, 0};
    }
    for (const int t : held_ids_)
      if (held_[t].lasts[i] < 0) keep(t, i);
    slices_.clear();
  }
  for (const int t : held_ids_) {
    if (!held_[t].leaves || held_[t].pieces.size() == 1) continue;
    for (const int at : held_[t].pieces) touch(at);
    const CutTensor& tensor = m_.tensors[t];
    const int result = piece(tensor.size);
    rooms_.back().stays = tensor.storage >= 0 && m_.storages[tensor.storage].last >= end_;
    touch(result);
    close(0);
  }
  const Bytes peak = sweep(m_.before[begin_] - local_);
  return {peak, static_cast<int>(steps_.size())};
}

Bytes Regions::sweep(Bytes base) {
  size_t at = 0;
  const int n = static_cast<int>(steps_.size());
  for (int k = 0; k < n; ++k)
    for (; at < steps_[k].touched; ++at) {
      Room& room = rooms_[touched_[at]];
      if (room.first == -2) room.first = k;
      room.last = k;
    }
  Bytes live = base;
  for (Room& room : rooms_) {
    if (room.stays) room.last = n;
    if (room.first == -1) live += room.size;
  }
  Bytes peak = 0;
  at = 0;
  size_t over = 0;
  for (int k = 0; k < n; ++k) {
    const size_t from = at;
    for (size_t x = at; x < steps_[k].touched; ++x) {
      Room& room = rooms_[touched_[x]];
      if (room.first == k) {
        live += room.size;
        room.first = -3;  // counted, should it be touched twice
      }
    }
    Bytes saving = 0;
    for (; over < steps_[k].overwrites; ++over)
      if (rooms_[overwrites_[over].first].last == k) saving = std::max(saving, overwrites_[over].second);
    peak = std::max(peak, live + steps_[k].workspace - saving);
    for (size_t x = from; x < steps_[k].touched; ++x) {
      Room& room = rooms_[touched_[x]];
      if (room.last == k) {
        live -= room.size;
        room.last = -3;
      }
    }
    at = steps_[k].touched;
  }
  return peak;
}

}  // namespace tide
