// What a region takes: its stripes one after another, and the highest of their steps.
//
// Above a limit it is given up as soon as that is sure: by what is held between ops, by the steps of the first stripes
// (what they made and somebody reads later is there to their end), and by those of the last stripe alone, before which
// what leaves has been made.
#include <algorithm>
#include <span>

#include "cut/region.h"

namespace tide {

namespace {

constexpr int kLone = 4;  // stripes from which on the last one is looked at alone

}  // namespace

void Regions::recount(Held& held) {
  if (!held.counts) return;
  const bool kept = held.kept.piece >= 0;
  Bytes bytes = kept ? pieces_[held.kept.piece].size : 0;
  if (held.leaves && !m_.transfers)
    bytes += held.left - (kept && pieces_[held.kept.piece].left ? bytes : 0);
  else if (held.fresh.piece >= 0 && !held.leaves)  // else it may be stored, and gone
    bytes += pieces_[held.fresh.piece].size;
  held_bytes_ += bytes - held.bytes;
  held.bytes = bytes;
}

// Nothing has run yet.
void Regions::clear() {
  for (const int s : roomed_) room_of_[s] = -1;
  roomed_.clear();
  rooms_.clear();
  pieces_.clear();
  steps_.clear();
  overwrites_.clear();
  slices_.clear();
  pads_.clear();
  melting_.clear();
  local_ = staying_ = held_bytes_ = 0;
  weight_ = 0;
  for (const Output& output : outputs_) {
    sums_[output.tensor] = {};
    if (output.dim < 0) continue;
    Held& held = held_[output.tensor];
    held.pieces.clear();
    held.left = held.bytes = 0;
    held.fresh = held.kept = held.have = {};
  }
}

// Runs a stripe; false: more is held than a limit.
bool Regions::stripe(int i, Bytes always, Bytes limit) {
  for (const Linked& linked : std::span(linked_.data(), cut_.size())) {
    if (!empty(rows(linked.op, i))) part(linked, i);
    for (const int t : linked.reads)
      if (held_[t].lasts[i] == linked.op) keep(t, i);
    if (always + held_bytes_ > limit) return false;
  }
  for (const int t : held_ids_)
    if (held_[t].lasts[i] < 0) keep(t, i);
  slices_.clear();
  pads_.clear();
  return true;
}

// What the steps of one stripe take at the least: of what ran before, it finds what it reads and what leaves.
Bytes Regions::lone(int i, Bytes always, Bytes limit) {
  clear();
  for (const Output& output : outputs_) {
    const int op = m_.tensors[output.tensor].producer;
    const int64_t end = ends_[op][i - 1];
    if (end == 0) continue;
    const CutTensor& tensor = m_.tensors[output.tensor];
    const auto there = [&](Bytes size) {
      const int at = piece(size);
      rooms_.back().there = true;
      return at;
    };
    if (m_.ops[op].axes[axes_[op]].reduced) sums_[output.tensor] = {there(tensor.size), end};
    if (output.dim < 0) continue;
    Held& held = held_[output.tensor];
    if (held.lasting && held.counts) always += bytes(output.tensor, output.dim, {0, end});
    if (held.lows[i] < end) {
      held.kept = {there(bytes(output.tensor, output.dim, {held.lows[i], end})), held.lows[i], end};
      pieces_.back().left = held.leaves;
      if (held.leaves || !held.counts) rooms_.back().size = 0;  // in memory that is counted already, perhaps
    }
    recount(held);
  }
  const bool within = stripe(i, always, limit);
  const Bytes least = sweep(always - staying_, false);
  return within ? least : std::max(least, always + held_bytes_);
}

// What the steps until now take at the least.
Bytes Regions::so_far(Bytes base) {
  kept_.clear();
  for (const int t : held_ids_) {
    if (held_[t].kept.piece < 0) continue;
    const int room = pieces_[held_[t].kept.piece].room;
    if (rooms_[room].lasting) continue;
    rooms_[room].lasting = true;
    kept_.push_back(room);
  }
  const Bytes least = sweep(base, false);
  for (const int room : kept_) rooms_[room].lasting = false;
  return least;
}

RegionCost Regions::cost(int stripes, Pace pace, Bytes limit) {
  if (!is_linked_) link();
  stripes_ = stripes;
  for (const int op : begun_) begins_[op].clear();
  begun_.clear();
  again_ = runs_again(pace);
  if (again_) find_again();
  if (pulls(pace))
    find_ends();
  else if (pace == Pace::kPush)
    push_ends();
  else
    late_ends();
  settle();
  for (const Output& output : outputs_) {
    if (output.dim < 0) continue;
    Held& held = held_[output.tensor];
    const std::vector<int64_t>& ends = ends_[m_.tensors[output.tensor].producer];
    held.lasting = held.leaves && !m_.transfers && !among(leaving_, output.tensor, held.dim) &&
                   std::any_of(ends.begin(), ends.end(), [&](int64_t end) { return end > 0 && end < ends.back(); });
  }
  const auto begin = [&] {
    clear();
    for (int op = begin_; op < end_; ++op)
      if (axes_[op] < 0) whole(op);
  };
  const Bytes before = m_.before[begin_];
  begin();
  int next = 0;  // stripe behind which the steps until then are looked at
  for (int i = 0; i < stripes; ++i) {
    if (!stripe(i, always_, limit)) return {always_ + held_bytes_, 0, 0};
    if (limit == kNoLimit || i < next || i + 1 == stripes) continue;
    next = 2 * i + 1;
    const Bytes least = so_far(before - local_);
    if (least > limit) return {least, 0, 0};
    if (i > 0 || stripes < kLone || !coming_.empty()) continue;
    const Bytes last = lone(stripes - 1, always_, limit);
    if (last > limit) return {last, 0, 0};
    begin();
    stripe(0, always_, limit);
  }
  for (const int t : held_ids_)
    if (held_[t].leaves && held_[t].pieces.size() != 1) leave(t);
  const Bytes peak = sweep(before - local_, true);
  return {peak, static_cast<int>(steps_.size()), weight_};
}

// The highest step; unless it is of `all` steps there are, only those rooms are there that one of them touches.
Bytes Regions::sweep(Bytes base, bool all) {
  const int n = static_cast<int>(steps_.size());
  come_.assign(n + 1, 0);
  gone_.assign(n + 1, 0);
  Bytes live = base;
  for (const Room& room : rooms_) {
    if (room.there && (room.first >= 0 || all))
      live += room.size;
    else if (room.first >= 0)
      come_[room.first] += room.size;
    if (room.first >= 0 && !room.stays && (all || !room.lasting)) gone_[room.last] += room.size;
  }
  Bytes peak = 0;
  size_t over = 0;
  for (int k = 0; k < n; ++k) {
    live += come_[k];
    Bytes saving = 0;
    for (; over < steps_[k].overwrites; ++over) {
      const Room& room = rooms_[overwrites_[over].first];
      if (room.last == k && !room.stays) saving = std::max(saving, overwrites_[over].second);
    }
    peak = std::max(peak, live + steps_[k].workspace - saving);
    live -= gone_[k];
  }
  return peak;
}

}  // namespace tide
