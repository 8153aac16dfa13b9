#include "order/walker.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace tide {

Walker::Walker(const Problem& problem)
    : p_(problem),
      count_(problem.size.size(), 0),
      rest_(problem.size.size(), 0),
      missing_(problem.n),
      place_(problem.n, -1),
      ran_(problem.n + 1) {
  for (size_t s = 0; s < p_.size.size(); ++s)
    for (const int* m = p_.users.first(static_cast<int>(s)); m != p_.users.last(static_cast<int>(s)); ++m)
      rest_[s] ^= *m;
  for (int m = 0; m < p_.n; ++m) {
    missing_[m] = p_.preds.length(m);
    if (missing_[m] == 0) enter(m);
  }
}

void Walker::enter(int m) {
  place_[m] = static_cast<int>(ready_.size());
  ready_.push_back(m);
}

void Walker::leave(int m) {
  assert(is_ready(m));
  const int at = place_[m], moved = ready_.back();
  ready_[at] = moved;
  place_[moved] = at;
  ready_.pop_back();
  place_[m] = -1;
}

void Walker::run(int m) {
  work_ += kRun;
  leave(m);
  ran_.put(m);
  hash_ ^= scatter(m);
  ++done_;
  for (const int* s = p_.touched.first(m); s != p_.touched.last(m); ++s) {
    ++count_[*s];
    rest_[*s] ^= m;
  }
  for (const int* v = p_.succs.first(m); v != p_.succs.last(m); ++v)
    if (--missing_[*v] == 0) enter(*v);
}

void Walker::take_back(int m) {
  for (const int* v = p_.succs.first(m); v != p_.succs.last(m); ++v)
    if (missing_[*v]++ == 0) leave(*v);
  for (const int* s = p_.touched.first(m); s != p_.touched.last(m); ++s) {
    --count_[*s];
    rest_[*s] ^= m;
  }
  ran_.drop(m);
  hash_ ^= scatter(m);
  --done_;
  enter(m);
}

void Walker::neighbours(int m, std::vector<int>& out) const {
  for (const int* v = p_.succs.first(m); v != p_.succs.last(m); ++v)
    if (is_ready(*v)) out.push_back(*v);
  for (const int* s = p_.touched.first(m); s != p_.touched.last(m); ++s) {
    const int length = p_.users.length(*s);
    if (count_[*s] == length - 1) {
      if (is_ready(rest_[*s])) out.push_back(rest_[*s]);
    } else if (count_[*s] == 1) {
      // The storage has come to life: nobody else pays for it any more.
      for (const int* v = p_.users.first(*s); v != p_.users.last(*s); ++v)
        if (is_ready(*v)) out.push_back(*v);
    }
  }
}

StateKey Walker::key() const {
  const auto [first, last] = extent();
  return {first, {words() + first, words() + last}};
}

void Walker::jump(int first_word, const Word* words, int length) {
  const auto target = [&](int w) {
    if (w < first_word) return bits::kFull;
    return w < first_word + length ? words[w - first_word] : Word{0};
  };
  const auto [first, last] = extent();
  const int low = std::min(first, first_word), high = std::max(last, first_word + length);
  for (int w = high - 1; w >= low; --w)
    for (Word left = ran_.data()[w] & ~target(w); left;) {
      const int bit = 63 - std::countl_zero(left);
      take_back(w * bits::kPerWord + bit);
      left &= ~bits::bit_of(bit);
    }
  for (int w = low; w < high; ++w) bits::each_in(w, target(w) & ~ran_.data()[w], [this](int m) { run(m); });
}

Bytes Closure::close(Bytes f, Bytes budget, std::vector<int>& pending, std::vector<int>& ran, Bytes& highest) {
  while (!pending.empty()) {
    const int m = pending.back();
    pending.pop_back();
    if (!walker_.is_ready(m)) continue;
    const Outcome o = walker_.outcome(m);
    if (o.change > 0) continue;
    if (f + o.hill > budget) {
      blocked.push_back(m);
      continue;
    }
    highest = std::max(highest, f + o.hill);
    walker_.run(m);
    ran.push_back(m);
    walker_.neighbours(m, pending);
    f += o.change;
    if (o.change < 0) {
      pending.insert(pending.end(), blocked.begin(), blocked.end());
      blocked.clear();
    }
  }
  return f;
}

}  // namespace tide
