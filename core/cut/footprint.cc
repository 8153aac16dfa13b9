// What a region takes: its stripes one after another, and the highest of their steps.
//
// Above a limit it is given up as soon as that is sure: by what is held between ops, by the steps of the first stripes
// (what they made and somebody reads later is there to their end), and by those of the last stripe alone, before which
// what leaves has been made.
#include <algorithm>
#include <numeric>
#include <span>

#include "cut/region.h"

namespace tide {

namespace {

constexpr int kMany = 4;  // stripes, of which the first and the last are looked at before all others

}  // namespace

// What of a tensor is sure to be there in a stripe until its last reader has run: rows that this one reads, or that are
// kept behind it. Those of before and those of the stripe itself may lie in one piece.
void Regions::recount(Held& held, int t, int i) {
  if (!held.counts) return;
  const bool kept = held.kept.piece >= 0 && held.last_lows[i] < held.kept.end;
  Bytes bytes = 0;
  if (held.leaves && !m_.transfers) {
    bytes = held.left + (kept && !pieces_[held.kept.piece].left ? pieces_[held.kept.piece].size : 0);
  } else {
    const bool fresh = held.fresh.piece >= 0 && (held.last_ends[i] > held.fresh.first ||
                                                 (i + 1 < stripes_ && held.lows[i + 1] < held.fresh.end));
    if (kept && fresh)
      bytes = this->bytes(t, held.dim, {held.kept.first, held.fresh.end});
    else if (kept || fresh)
      bytes = pieces_[kept ? held.kept.piece : held.fresh.piece].size;
  }
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
  local_ = staying_ = held_bytes_ = too_large_ = 0;
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

// Runs a stripe, or as much of it as is below a limit: the highest that was held, at the least. While a part runs, what
// it reads is held still, and what it makes already, unless that is written over one of those.
Bytes Regions::stripe(int i, Bytes always, Bytes limit) {
  Bytes most = 0;
  for (const int t : held_ids_)
    if (held_[t].kept.piece >= 0) recount(held_[t], t, i);
  for (const Linked& linked : std::span(linked_.data(), cut_.size())) {
    if (!empty(rows(linked.op, i))) {
      size_t over = overwrites_.size();
      part(linked, i);
      Bytes saving = 0;
      for (; over < overwrites_.size(); ++over) saving = std::max(saving, overwrites_[over].second);
      most = std::max(most, always + held_bytes_ - saving);
    }
    for (const int t : linked.reads)
      if (held_[t].lasts[i] == linked.op) keep(t, i);
    most = std::max(most, always + held_bytes_);
    if (most > limit) return most;
  }
  for (const int t : held_ids_)
    if (held_[t].lasts[i] < 0) keep(t, i);
  slices_.clear();
  pads_.clear();
  return most;
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
  }
  const Bytes held = stripe(i, always, limit);
  return held > limit ? held : sweep(always - staying_, false);
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

void Regions::look_at(int stripes, const std::vector<int>& which) {
  count_ = stripes;
  at_ = which;
  stripes_ = static_cast<int>(at_.size());
}

// Ops of the interval that are not cut run before the stripes.
void Regions::begin() {
  clear();
  for (int op = begin_; op < end_; ++op)
    if (axes_[op] < 0) whole(op);
}

// What a region of many stripes takes at the least: the highest step of its first one, or of its last one. All between
// are taken for one; what is read of these, and held behind the first, is the same.
Bytes Regions::ends_take(int stripes, Pace pace, Bytes limit) {
  look_at(stripes, {0, stripes - 2, stripes - 1});
  if (!settle(pace)) return 0;
  begin();
  const Bytes held = stripe(0, always_, limit);
  if (held > limit) return held;
  const Bytes first = so_far(m_.before[begin_] - local_);
  return first > limit ? first : lone(2, always_, limit);
}

RegionCost Regions::cost(int stripes, Pace pace, Bytes limit) {
  if (!is_linked_) link();
  if (limit < kNoLimit && stripes >= kMany && coming_.empty() && !runs_again(pace)) {
    const Bytes least = ends_take(stripes, pace, limit);
    if (least > limit) return {least, 0, 0};
  }
  std::vector<int> all(stripes);
  std::iota(all.begin(), all.end(), 0);
  look_at(stripes, all);
  settle(pace);
  begin();
  int next = 0;  // stripe behind which the steps until then are looked at
  for (int i = 0; i < stripes; ++i) {
    const Bytes held = stripe(i, always_, limit);
    if (std::max(held, too_large_) > limit) return {std::max(held, too_large_), 0, 0};
    if (limit == kNoLimit || i < next || i + 1 == stripes) continue;
    next = 2 * i + 1;
    const Bytes least = so_far(m_.before[begin_] - local_);
    if (least > limit) return {least, 0, 0};
  }
  for (const int t : held_ids_)
    if (held_[t].leaves && held_[t].pieces.size() != 1) leave(t);
  const Bytes peak = std::max(too_large_, sweep(m_.before[begin_] - local_, true));
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
