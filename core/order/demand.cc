#include "order/demand.h"

#include <algorithm>
#include <limits>

namespace tide {

namespace {

constexpr size_t kMostEarly = 4;  // storages that one macro finishes early, of which all subsets are listed

// Whether a macro's end is its highest place, and not below its begin, wherever it ends no shared storage.
bool is_plain(const Problem& p, int m) {
  if (p.fixed[m] < 0) return false;
  Bytes saved = 0;
  for (int i = p.program[m]; i < p.program[m + 1]; ++i) {
    const Item& item = p.items[i];
    if (item.kind == Item::kSave && item.storage < 0) saved = std::max(saved, item.bytes);
    if (item.kind != Item::kHill) continue;
    if (item.bytes - saved > p.fixed[m]) return false;
    saved = 0;
  }
  return true;
}

}  // namespace

Demand::Demand(const Problem& p)
    : p_(p),
      words_(bits::words_for(p.n)),
      needs_(p.n * words_),
      state_(p.n),
      seen_(p.size.size()),
      stamp_(p.size.size(), 0),
      members_(words_) {
  for (int m = 0; m < p.n; ++m) {
    plain_.push_back(is_plain(p, m));
    for (int i = p.program[m]; i < p.program[m + 1]; ++i) {
      const Item& item = p.items[i];
      if (item.kind == Item::kFinish && i < p.last_op[m]) early_.items.push_back(item.storage);
      if (item.kind == Item::kSave && i >= p.last_op[m] && item.storage >= 0) over_.items.push_back(item.storage);
    }
    early_.close();
    over_.close();
  }
}

bool Demand::list(Walker& walker, std::vector<Move>& moves) {
  moves.clear();
  int quiet = 0;
  for (int m = 0; m < p_.n; ++m) {
    if (walker.has_run(m)) continue;
    sort_out(walker, m);
    quiet += state_[m] == kQuiet;
    if (state_[m] == kHead) moves.push_back(move_of(walker, needs(m), m));
  }
  if (quiet == p_.n - walker.done()) list_rest(walker, moves);
  for (int s = 0; s < static_cast<int>(p_.size.size()); ++s)
    if (p_.users.length(s) - walker.count(s) > 1) list_storage(walker, s, moves);
  for (int m = 0; m < p_.n; ++m)
    if (!walker.has_run(m) && state_[m] != kOut && !list_sets(walker, m, moves)) return false;
  return true;
}

// What a macro needs, and whether that ends anything.
void Demand::sort_out(const Walker& walker, int m) {
  state_[m] = kOut;
  Word* const own = needs(m);
  std::fill(own, own + words_, Word{0});
  for (const int* u = p_.preds.first(m); u != p_.preds.last(m); ++u) {
    if (walker.has_run(*u)) continue;
    if (state_[*u] != kQuiet) return;
    const Word* const more = needs(*u);
    for (size_t w = 0; w < words_; ++w) own[w] |= more[w];
  }
  bits::put(own, m);
  if (ends_any(walker, own, m)) return;
  state_[m] = plain_[m] && !ends_any(walker, own, -1) ? kQuiet : kHead;
}

// Whether running these macros, all but one, leaves some storage with nobody to touch it.
bool Demand::ends_any(const Walker& walker, const Word* members, int but) {
  ++now_;
  bool any = false;
  for (size_t w = 0; w < words_; ++w)
    bits::each_in(static_cast<int>(w), members[w], [&](int m) {
      if (any || m == but) return;
      for (const int* s = p_.touched.first(m); s != p_.touched.last(m); ++s) {
        if (stamp_[*s] != now_) {
          stamp_[*s] = now_;
          seen_[*s] = 0;
        }
        any = any || ++seen_[*s] == p_.users.length(*s) - walker.count(*s);
      }
    });
  return any;
}

// Adds to `members` all that touch a storage, and what they need. False if one besides `last` is not quiet, or needs
// it.
bool Demand::gather(const Walker& walker, int storage, int last, Word* members) {
  for (const int* m = p_.users.first(storage); m != p_.users.last(storage); ++m) {
    if (walker.has_run(*m)) continue;
    if (state_[*m] == kOut || (*m != last && state_[*m] != kQuiet)) return false;
    const Word* const more = needs(*m);
    if (*m != last && bits::has(more, last)) return false;
    for (size_t w = 0; w < words_; ++w) members[w] |= more[w];
  }
  return true;
}

// All that touch a storage, with the one last that has the least hill there.
void Demand::list_storage(Walker& walker, int s, std::vector<Move>& moves) {
  int loud = -1;  // the only one that is not quiet: it can but be last
  for (const int* m = p_.users.first(s); m != p_.users.last(s); ++m) {
    if (walker.has_run(*m) || state_[*m] == kQuiet) continue;
    if (state_[*m] == kOut || loud >= 0) return;
    loud = *m;
  }
  Move best;
  for (const int* m = p_.users.first(s); m != p_.users.last(s); ++m) {
    if (walker.has_run(*m) || (loud >= 0 && *m != loud)) continue;
    std::fill(members_.begin(), members_.end(), Word{0});
    if (!gather(walker, s, *m, members_.data()) || ends_any(walker, members_.data(), *m)) continue;
    Move move = move_of(walker, members_.data(), *m);
    if (best.macros.empty() || move.outcome.hill < best.outcome.hill) best = std::move(move);
  }
  if (!best.macros.empty()) moves.push_back(std::move(best));
}

// Two or more of the storages that a macro finishes before its last op, or one or more and one that it writes over
// there. False: too many.
bool Demand::list_sets(Walker& walker, int last, std::vector<Move>& moves) {
  const std::vector<int> early = worth_waiting_for(walker, early_, last);
  if (early.empty()) return true;
  if (early.size() > kMostEarly) return false;
  std::vector<int> over = worth_waiting_for(walker, over_, last);
  over.push_back(-1);  // none
  for (unsigned subset = 1; subset < 1U << early.size(); ++subset)
    for (int s : over) {
      if (s < 0 && (subset & (subset - 1)) == 0) continue;
      std::fill(members_.begin(), members_.end(), Word{0});
      for (size_t k = 0; k < early.size(); ++k)
        if (subset >> k & 1) gather(walker, early[k], last, members_.data());
      if (s >= 0) gather(walker, s, last, members_.data());
      if (!ends_any(walker, members_.data(), last)) moves.push_back(move_of(walker, members_.data(), last));
    }
  return true;
}

// Those of a macro's storages that it could end, and not by what it needs alone.
std::vector<int> Demand::worth_waiting_for(const Walker& walker, const Rows& wants, int last) {
  std::vector<int> worth;
  for (const int* s = wants.first(last); s != wants.last(last); ++s) {
    std::fill(members_.begin(), members_.end(), Word{0});
    if (!gather(walker, *s, last, members_.data())) continue;
    if (!std::equal(members_.begin(), members_.end(), needs(last))) worth.push_back(*s);
  }
  return worth;
}

// Everything, if nothing is left to end.
void Demand::list_rest(Walker& walker, std::vector<Move>& moves) {
  std::fill(members_.begin(), members_.end(), Word{0});
  int last = -1;
  for (int m = 0; m < p_.n; ++m)
    if (!walker.has_run(m)) {
      bits::put(members_.data(), m);
      last = m;
    }
  if (last >= 0 && !ends_any(walker, members_.data(), -1)) moves.push_back(move_of(walker, members_.data(), last));
}

Move Demand::move_of(Walker& walker, const Word* members, int last) const {
  Move move{{}, {std::numeric_limits<Bytes>::min(), 0}};
  for (size_t w = 0; w < words_; ++w)
    bits::each_in(static_cast<int>(w), members[w], [&](int m) {
      if (m != last) move.macros.push_back(m);
    });
  move.macros.push_back(last);
  for (int m : move.macros) {
    const Outcome o = walker.outcome(m);
    move.outcome.hill = std::max(move.outcome.hill, move.outcome.change + o.hill);
    move.outcome.change += o.change;
    if (m != last) walker.run(m);
  }
  for (auto m = move.macros.rbegin() + 1; m != move.macros.rend(); ++m) walker.take_back(*m);
  return move;
}

}  // namespace tide
