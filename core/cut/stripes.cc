// The stripes of a region as storages: what each step makes, reads and gives back.
#include "cut/region.h"

#include <algorithm>

#include "cut/rows.h"

namespace tide {

namespace {

constexpr int64_t kFar = int64_t{1} << 62;

int64_t weight_of(const CutAxis& axis, int64_t rows) {
  std::pair<int64_t, int64_t> below{0, 0};
  for (const auto& at : axis.weights) {
    if (rows == at.first) return at.second;
    if (rows < at.first)
      return below.second + floor_div((at.second - below.second) * (rows - below.first), at.first - below.first);
    below = at;
  }
  return axis.weights.empty() ? 1 : below.second;
}

}  // namespace

Bytes Regions::bytes(int tensor, int dim, RowRange rows) const {
  const CutTensor& t = m_.tensors[tensor];
  return (t.size * (rows.second - rows.first) + std::max<int64_t>(0, t.shape[dim] - 1)) /
         std::max<int64_t>(1, t.shape[dim]);
}

// A whole tensor of the model is made; those of the caller may be of any size.
void Regions::note(int t, Bytes size) {
  if (!m_.tensors[t].output) too_large_ = std::max(too_large_, m_.too_large(size));
}

int Regions::piece(Bytes size) {
  too_large_ = std::max(too_large_, m_.too_large(size));
  rooms_.push_back({size, false, false, true});
  pieces_.push_back({static_cast<int>(rooms_.size()) - 1, size});
  return static_cast<int>(pieces_.size()) - 1;
}

int Regions::room_of(int storage) {
  int& room = room_of_[storage];
  if (room < 0) {
    const CutStorage& s = m_.storages[storage];
    const bool there = s.first < begin_;
    room = static_cast<int>(rooms_.size());
    rooms_.push_back({s.size, there, s.last >= end_, false});
    roomed_.push_back(storage);
    if (there) local_ += s.size;
    if (there && s.last >= end_) staying_ += s.size;
    if (m_.transfers) weigh(m_.transfer, s.size);
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

void Regions::weigh(const GlueWeight& glue, Bytes written) {
  weight_ += glue.fixed + (glue.per_mebibyte == 0 ? 0 : floor_div(written * glue.per_mebibyte, Bytes{1} << 20));
}

void Regions::touch_room(int at) {
  Room& room = rooms_[at];
  room.last = static_cast<int>(steps_.size());
  if (room.first < 0) room.first = room.last;
}

int Regions::slice(int from, int tensor, int dim, RowRange rows) {
  const size_t count = slices_.size();
  int last = from >= 0 ? pieces_[from].slices : sliced_[tensor];
  if (last >= static_cast<int>(count) || (last >= 0 && slices_[last].from != from)) last = -1;  // of another stripe
  for (int k = last; k >= 0; k = slices_[k].next)
    if (slices_[k].dim == dim && slices_[k].rows == rows) return slices_[k].piece;
  const bool loaded = from < 0 && m_.transfers;
  const int result = piece(bytes(tensor, dim, rows));
  if (from < 0 && melts(tensor, dim))
    touch_rows(tensor, dim, rows);
  else if (!loaded)
    touch(from >= 0 ? from : piece_of_storage(m_.tensors[tensor].storage, m_.tensors[tensor].size));
  touch(result);
  weigh(loaded ? m_.transfer : m_.slice, pieces_[result].size);
  close(0);
  (from >= 0 ? pieces_[from].slices : sliced_[tensor]) = static_cast<int>(slices_.size());
  slices_.push_back({from, dim, rows, result, last});
  return result;
}

void Regions::have(Held& held, int t) {
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
  weigh(m_.join, pieces_[joined].size);
  close(0);
  held.have = {joined, both.first, both.second};
}

Regions::Rows Regions::around(Held& held, int t, RowRange rows) {
  const Rows* found = nullptr;
  for (const Rows* there : {&held.have, &held.fresh, &held.kept}) {
    if (there->piece < 0 || there->first > rows.first || rows.second > there->end) continue;
    if (RowRange{there->first, there->end} == rows) return *there;
    if (!found) found = there;
  }
  if (found) return *found;
  have(held, t);
  return held.have;
}

void Regions::keep(int t, int stripe) {
  Held& held = held_[t];
  const int64_t end = std::max(held.kept.piece < 0 ? 0 : held.kept.end, held.fresh.piece < 0 ? 0 : held.fresh.end);
  const int64_t later = stripe + 1 < stripes_ ? held.lows[stripe + 1] : kFar;
  if (later >= end) {
    held.kept = held.fresh = held.have = {};
    recount(held, t, stripe);
    return;
  }
  const int64_t first =
      std::min(held.kept.piece < 0 ? end : held.kept.first, held.fresh.piece < 0 ? end : held.fresh.first);
  const RowRange left{std::max(later, first), end};
  Rows kept = around(held, t, left);
  if (left != RowRange{kept.first, kept.end}) kept = {slice(kept.piece, t, held.dim, left), left.first, left.second};
  held.kept = kept;
  held.fresh = held.have = {};
  recount(held, t, stripe);
}

int Regions::given(const Linked& linked, const Input& input, RowRange rows, int stripe) {
  const int t = input.tensor, dim = input.dim;
  const CutTensor& tensor = m_.tensors[t];
  if (input.edge >= 0) {
    const RowRange part = needs_[static_cast<int64_t>(input.edge) * stripes_ + stripe];
    if (empty(part)) return -1;
    Held& held = held_[t];
    const Rows got = around(held, t, part);
    return part == RowRange{got.first, got.end} ? got.piece : slice(got.piece, t, held.dim, part);
  }
  if (dim < 0) return piece_of_storage(tensor.storage, tensor.size);
  const RowRange part = need(*linked.axis, *input.index, rows, tensor.shape[dim]);
  if (empty(part)) return -1;
  const bool melts = this->melts(t, dim);
  if (part == RowRange{0, tensor.shape[dim]} && !melts) return piece_of_storage(tensor.storage, tensor.size);
  if (melts) {
    const int piece = as_it_comes(t, dim, part);
    if (piece >= 0) return piece;
  }
  return slice(-1 - t, t, dim, part);
}

// Bytes of what a part is given, where that is its operand with padding and the op itself cannot say so. TFLite has one
// word for the padding of all dimensions: none, or as much as the whole would need.
Bytes Regions::padded(int op, const CutRead& read, RowRange rows) const {
  const CutAxis& axis = m_.ops[op].axes[axes_[op]];
  if (!read.first || axis.padded_row == 0) return 0;
  for (size_t d = 0; d < read.dims.size(); ++d) {
    const RowIndex& index = read.dims[d];
    if (index.axis != axes_[op]) continue;
    const int64_t size = m_.tensors[read.tensor].shape[d], count = rows.second - rows.first;
    const int64_t first = rows.first * index.num + index.lo, end = (rows.second - 1) * index.num + index.hi + 1;
    const int64_t before = std::max<int64_t>(0, -first), behind = std::max<int64_t>(0, end - size);
    const int64_t there = end - behind - first - before;
    if (!axis.padded_beside && before == 0 && behind == 0) return 0;
    const int64_t missing = std::max<int64_t>(0, end - first - there);
    if (ceil_div(there, index.num) == count && missing / 2 == before) return 0;
    if (count == 1) {  // the part's step is as long as its operand: what is missing is split evenly, the odd row behind
      const int64_t beside = std::max<int64_t>({0, before - behind, behind - before - 1});
      return beside == 0 ? 0 : m_.tensors[read.tensor].size / size * (there + beside);
    }
    return axis.padded_row * (end - first);
  }
  return 0;
}

// Rows that a part makes of which it keeps its own.
RowRange Regions::made(int op, RowRange rows) const {
  const CutAxis& axis = m_.ops[op].axes[axes_[op]];
  if (axis.stretch > 0)
    for (const auto& read : m_.ops[op].reads)
      for (size_t d = 0; d < read.dims.size(); ++d)
        if (read.first && read.dims[d].axis == axes_[op]) {
          const RowRange given = need(axis, read.dims[d], rows, m_.tensors[read.tensor].shape[d]);
          return {given.first * axis.stretch, given.second * axis.stretch};
        }
  return rows;
}

int Regions::pad(int from, Bytes size) {
  for (const Slice& s : pads_)
    if (s.from == from && s.rows.first == size) return s.piece;
  const int result = piece(size);
  touch(from);
  touch(result);
  weigh(m_.slice, size);
  close(0);
  pads_.push_back({from, 0, {size, size}, result, -1});
  return result;
}

void Regions::part(const Linked& linked, int stripe) {
  const int op = linked.op;
  const CutOp& o = m_.ops[op];
  const CutAxis& axis = *linked.axis;
  const RowRange part = rows(op, stripe);
  std::vector<int>&inputs = given_, &outputs = results_;
  inputs.clear();
  outputs.clear();
  rough_.clear();
  for (int k = linked.inputs; k < linked.inputs_end; ++k) {
    inputs.push_back(given(linked, inputs_[k], part, stripe));
    const Bytes size = axis.padded_row == 0 ? 0 : padded(op, *inputs_[k].read, part);
    if (size > 0 && inputs.back() >= 0) inputs.back() = pad(inputs.back(), size);
  }
  const RowRange around = made(op, part);
  for (int j = linked.outputs; j < linked.outputs_end; ++j) {
    const CutTensor& tensor = m_.tensors[outputs_[j].tensor];
    const int d = axis.reduced ? -1 : outputs_[j].dim;
    const Bytes size = d < 0 ? tensor.size : bytes(outputs_[j].tensor, d, part);
    int output;
    if (part == RowRange{0, axis.size} && begins_[op].empty()) {
      output = piece_of_storage(tensor.storage, size);
      note(outputs_[j].tensor, size);
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
  for (int j = linked.outputs; j < linked.outputs_end; ++j) {
    const int d = outputs_[j].dim;
    rough_.push_back(d < 0 || around == part ? outputs[j - linked.outputs]
                                             : piece(bytes(outputs_[j].tensor, d, around)));
  }
  for (const int at : inputs)
    if (at >= 0) touch(at);
  for (const int at : rough_) touch(at);
  if (outputs.size() == 1 && rough_ == outputs)
    for (size_t k = 0; k < inputs.size(); ++k)
      if (o.reads[k].may_overwrite && inputs[k] >= 0) {
        const Bytes size = pieces_[outputs[0]].size;
        const int room = pieces_[inputs[k]].room;
        if (rooms_[room].own && rooms_[room].size == size && pieces_[inputs[k]].size == size &&
            room != pieces_[outputs[0]].room)
          overwrites_.emplace_back(room, size);
      }
  weight_ += weight_of(axis, part.second - part.first);
  close(workspace(op, part));
  for (size_t j = 0; j < outputs.size(); ++j) {
    if (rough_[j] == outputs[j]) continue;
    touch(rough_[j]);
    touch(outputs[j]);
    weigh(m_.slice, pieces_[outputs[j]].size);
    close(0);
  }
  for (size_t j = 0; j < outputs.size(); ++j) {
    const int t = outputs_[linked.outputs + j].tensor, at = outputs[j];
    if (axis.reduced) {
      add(t, at, op, part);
      continue;
    }
    Held& held = held_[t];
    if (held.leaves) {
      held.pieces.push_back(at);
      held.left += pieces_[at].size;
      pieces_[at].left = true;
      if (held.lasting) rooms_[pieces_[at].room].lasting = true;
    }
    held.fresh = {at, part.first, part.second};
    held.have = {};
    recount(held, t, stripe);
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
  const bool last = part.second == size;
  if (last) note(t, tensor.size);
  const int result = last ? piece_of_storage(tensor.storage, tensor.size) : piece(tensor.size);
  touch(sum.piece);
  touch(at);
  touch(result);
  for (const int operand : {sum.piece, at})
    if (m_.sums_in_place) overwrites_.emplace_back(pieces_[operand].room, tensor.size);
  weigh(m_.merge, tensor.size);
  close(0);
  sum = {result, part.second};
}

// Puts the pieces of a tensor together; where an op takes so many operands only, groups of them first.
void Regions::join(int t) {
  if (m_.transfers) {
    weigh(m_.transfer, m_.tensors[t].size);
    return close(0);
  }
  std::vector<int> pieces = held_[t].pieces;
  while (m_.most_joined > 1 && static_cast<int>(pieces.size()) > m_.most_joined) {
    std::vector<int> groups;
    for (size_t k = 0; k < pieces.size(); k += m_.most_joined) {
      const size_t end = std::min(pieces.size(), k + m_.most_joined);
      if (end == k + 1) {
        groups.push_back(pieces[k]);
        continue;
      }
      Bytes size = 0;
      for (size_t i = k; i < end; ++i) {
        touch(pieces[i]);
        size += pieces_[pieces[i]].size;
      }
      groups.push_back(piece(size));
      touch(groups.back());
      weigh(m_.join, size);
      close(0);
    }
    pieces = std::move(groups);
  }
  for (const int at : pieces) touch(at);
  const CutTensor& tensor = m_.tensors[t];
  const Bytes before = too_large_;
  const int result = piece(tensor.size);
  if (tensor.output) too_large_ = before;
  rooms_.back().stays = tensor.storage >= 0 && m_.storages[tensor.storage].last >= end_;
  touch(result);
  weigh(m_.join, tensor.size);
  close(0);
}

// What leaves in pieces that others read as they are is never there twice.
void Regions::leave(int t) {
  const CutTensor& tensor = m_.tensors[t];
  if (m_.transfers || !among(leaving_, t, held_[t].dim)) return join(t);
  const bool stays = tensor.storage >= 0 && m_.storages[tensor.storage].last >= end_;
  for (const int at : held_[t].pieces) rooms_[pieces_[at].room].stays |= stays;
}

// Whether a tensor comes from elsewhere in pieces along a dimension, each of which goes when its rows have been read:
// what the region reads of it, and nobody behind it, are such rows alone.
bool Regions::melts(int t, int dim) const {
  const CutTensor& tensor = m_.tensors[t];
  if (m_.transfers || tensor.storage < 0 || !among(coming_, t, dim)) return false;
  const CutStorage& storage = m_.storages[tensor.storage];
  if (storage.first < 0 || storage.first >= begin_ || storage.last >= end_ || storage.size != tensor.size) return false;
  return std::all_of(tensor.readers.begin(), tensor.readers.end(), [&](int reader) {
    if (reader < begin_) return true;
    if (reader >= end_ || axes_[reader] < 0 || m_.ops[reader].view) return false;
    for (const auto& read : m_.ops[reader].reads)
      if (read.tensor == t && (dim >= static_cast<int>(read.dims.size()) || read.dims[dim].axis != axes_[reader]))
        return false;
    return true;
  });
}

// Rows of stripe `k` where all are equal.
RowRange Regions::equal_rows(int64_t size, int k) const {
  return {ceil_div(size * k, stripes_), ceil_div(size * (k + 1), stripes_)};
}

// The room of the first of the pieces in which a tensor comes: as many as there are stripes, all there before the
// region.
int Regions::melting(int t, int dim) {
  for (const auto& [tensor, room] : melting_)
    if (tensor == t) return room;
  const int64_t size = m_.tensors[t].shape[dim];
  melting_.emplace_back(t, static_cast<int>(rooms_.size()));
  for (int k = 0; k < stripes_; ++k) {
    rooms_.push_back({bytes(t, dim, equal_rows(size, k)), true, false, true});
    local_ += rooms_.back().size;
  }
  return melting_.back().second;
}

void Regions::touch_rows(int t, int dim, RowRange rows) {
  const int room = melting(t, dim);
  const int64_t size = m_.tensors[t].shape[dim];
  for (int k = 0; k < stripes_; ++k)
    if (equal_rows(size, k).first < rows.second && rows.first < equal_rows(size, k).second) touch_room(room + k);
}

// A piece that a tensor comes in and that is just what a part reads; -1: there is none.
int Regions::as_it_comes(int t, int dim, RowRange rows) {
  const int room = melting(t, dim);
  const int64_t size = m_.tensors[t].shape[dim];
  for (int k = 0; k < stripes_; ++k)
    if (rows == equal_rows(size, k)) {
      pieces_.push_back({room + k, rooms_[room + k].size});
      return static_cast<int>(pieces_.size()) - 1;
    }
  return -1;
}

void Regions::whole(int op) {
  const CutOp& o = m_.ops[op];
  for (const int s : o.touched) touch_room(room_of(s));
  for (const auto& [s, saving] : o.overwrites) overwrites_.emplace_back(room_of(s), saving);
  for (const CutMade& made : o.made) note(made.tensor, m_.tensors[made.tensor].size);
  weight_ += o.weight;
  close(o.workspace);
}

}  // namespace tide
