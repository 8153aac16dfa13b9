#include "sequence/shave.h"

#include <algorithm>
#include <cmath>

namespace tide {

namespace {

constexpr int kLengths[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
constexpr int kShort = 8;                                 // free slots that there are behind a spread, wherever it is
constexpr int kPatience = 50;                             // chains in turn that leave the peak as high as it was
constexpr double kWear = 1.0 / 256, kMostWear = 1.0 / 4;  // a second of transfer beside one of an op, and if blurred

double price(Cost cost, Bytes bytes) { return (static_cast<double>(cost) + 1e-9) / static_cast<double>(bytes); }

}  // namespace

Shaver::Shaver(Timeline& line, uint64_t seed)
    : line_(line), swapper_(line), random_(seed), in_chain_(line.problem().n(), 0) {}

// The chain's runs, in the order of their numbers, evenly in the free slots right before an occupied one.
void Shaver::put_chain(int before, const std::vector<int>& chain) {
  int at = line_.previous(before);
  const int step = (before - at) / (static_cast<int>(chain.size()) + 1);
  for (const int op : chain) {
    line_.put(op, at + step, at);
    at += step;
  }
}

// Ops to run again right before slot `before` so that `op` can: of what they read, what is gone since the peak and
// largest is made again too, up to a length.
void Shaver::chain_for(int op, int peak, int before, size_t length) {
  const SequenceProblem& p = line_.problem();
  chain_.assign(1, op);
  in_chain_[op] = 1;
  wanted_.clear();
  int newest = op;
  while (true) {
    for (const int x : p.ops[newest].reads) {
      const int maker = p.values[x].maker;
      if (maker < 0 || in_chain_[maker] || p.ops[maker].once || line_.barred(maker, before)) continue;
      if (line_.last(x, line_.source(x, before)) < peak) wanted_.push_back(x);
    }
    if (chain_.size() >= length) break;
    newest = -1;
    Bytes largest = -1;
    for (const int x : wanted_) {
      const SequenceValue& value = p.values[x];
      if (!in_chain_[value.maker] && value.size > largest) {
        largest = value.size;
        newest = value.maker;
      }
    }
    if (newest < 0) break;
    in_chain_[newest] = 1;
    chain_.push_back(newest);
  }
  for (const int v : chain_) in_chain_[v] = 0;
  std::sort(chain_.begin(), chain_.end());
}

double Shaver::blur(double noise) {
  return noise > 0 ? std::exp(noise * (uniform() + uniform() + uniform() - 1.5)) : 1;
}

// Values that are live across the peak and not used there, those first that may be cheapest to do without.
void Shaver::gather(int peak, Bytes excess, double noise) {
  const SequenceProblem& p = line_.problem();
  candidates_.clear();
  for (int x = 0; x < static_cast<int>(p.values.size()); ++x) {
    const SequenceValue& value = p.values[x];
    if (value.size == 0 || value.maker < 0 || p.ops[value.maker].once || line_.op(peak) == value.maker) continue;
    const std::vector<int>& readers = line_.readers(x);
    if (readers.empty() || readers.back() < peak) continue;
    const int source = line_.source(x, peak);
    if (source < 0) continue;
    const auto next = std::lower_bound(readers.begin(), readers.end(), peak);
    if (*next == peak || line_.source(x, *next) != source || line_.barred(value.maker, *next)) continue;
    Bytes made = 0;
    for (const int y : p.ops[value.maker].makes) made += p.values[y].size;
    const double factor = blur(noise);
    const double least = factor * price(p.ops[value.maker].cost, std::min(made, excess));
    candidates_.push_back({least, factor, x, *next});
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.least != b.least ? a.least < b.least : a.value < b.value;
  });
}

// Chains for a value, of ever more runs, where one is cheaper than the choice.
void Shaver::try_chain(const Candidate& candidate, int peak, Bytes excess, Choice& choice) {
  const SequenceProblem& p = line_.problem();
  const Bytes highest = line_.peak();
  size_t former = 0;
  for (const int length : kLengths) {
    chain_for(p.values[candidate.value].maker, peak, candidate.before, length);
    if (chain_.size() == former) break;
    former = chain_.size();
    Cost spent = 0;
    for (const int op : chain_) spent += p.ops[op].cost;
    if (choice.any() && candidate.blur * price(spent, excess) >= choice.price) break;
    if (line_.room(candidate.before) < static_cast<int>(former)) {
      worn_ = worn_ || former <= kShort;
      if (crowded_ < 0) crowded_ = candidate.before;
      break;
    }
    ++chains_;
    const size_t mark = line_.mark();
    put_chain(candidate.before, chain_);
    const Bytes top = line_.peak(), freed = highest - line_.at(peak);
    line_.undo(mark);
    if (freed <= 0 || top > highest) continue;
    const double now = candidate.blur * price(spent, std::min(freed, excess));
    if (!choice.any() || now < choice.price) {
      choice.price = now;
      choice.before = candidate.before;
      choice.chain = chain_;
    }
  }
}

bool Shaver::best(int peak, Bytes excess, double noise, Choice& choice) {
  crowded_ = -1;
  worn_ = false;
  choice.before = -1;
  choice.swap = Swap();
  if (line_.problem().transfers()) {
    const double wear = noise > 0 ? kWear * std::pow(kMostWear / kWear, uniform()) : kWear;
    choice.swap = swapper_.best(peak, excess, wear, [&] { return blur(noise); });
    choice.price = choice.swap.price;
    crowded_ = swapper_.crowded();
    worn_ = crowded_ >= 0;
  }
  for (const Candidate& candidate : candidates_) {
    if (choice.any() && candidate.least >= choice.price) break;
    try_chain(candidate, peak, excess, choice);
  }
  return choice.any();
}

bool Shaver::shave(Bytes budget, double noise, Cost most) {
  Choice choice;
  Bytes lowest = line_.peak();
  int patience = kPatience;
  while (line_.peak() > budget) {
    if (stop && stop()) return false;
    const Bytes excess = line_.peak() - budget;
    gather(line_.highest(), excess, noise);
    if (!best(line_.highest(), excess, noise, choice)) {
      if (crowded_ < 0) return false;
      line_.spread(crowded_);
      gather(line_.highest(), excess, noise);
      if (!best(line_.highest(), excess, noise, choice)) return false;
    }
    if (choice.before >= 0)
      put_chain(choice.before, choice.chain);
    else
      swapper_.put(choice.swap);
    if (line_.cost() > most) return false;
    if (worn_) line_.spread();
    if (line_.peak() < lowest) {
      lowest = line_.peak();
      patience = kPatience;
    } else if (--patience == 0) {
      return false;
    }
  }
  return true;
}

void Shaver::tidy(Bytes budget) {
  const SequenceProblem& p = line_.problem();
  std::vector<std::pair<Cost, int>> again;
  for (int slot = line_.begin(); slot != line_.end(); slot = line_.next(slot))
    if (p.ops[line_.op(slot)].transfer == Transfer::kLoad)
      again.emplace_back(0, slot);
    else if (line_.runs_of(line_.op(slot)).size() > 1)
      again.emplace_back(-p.ops[line_.op(slot)].cost, slot);
  std::sort(again.begin(), again.end());
  bool taken = true;
  while (taken) {
    taken = false;
    for (const auto& [cost, slot] : again) {
      if (line_.op(slot) < 0 || !line_.can_take(slot)) continue;
      const size_t mark = line_.mark();
      line_.take(slot);
      if (line_.peak() > budget)
        line_.undo(mark);
      else
        taken = true;
    }
  }
  if (p.transfers()) swapper_.drop_stores();
}

void Shaver::wander(Bytes budget, int times) {
  Cost cost = line_.problem().transfers() ? line_.cost() : 0;
  for (int i = 0; i < times; ++i) wander_once(budget, cost);
}

// `cost`: of the line, where there are transfers.
void Shaver::wander_once(Bytes budget, Cost& cost) {
  int from = 1 + below(line_.end() - 1);
  while (line_.op(from) < 0)
    if (++from == line_.end()) return;
  auto [low, high] = line_.window(from);
  const int reach = (line_.end() / line_.runs()) << below(8);
  low = std::max(low, from - reach);
  high = std::min(high, from + reach);
  if (high - low < 2) return;
  const int to = low + 1 + below(high - low - 1);
  if (line_.op(to) >= 0) return;
  const size_t mark = line_.mark();
  line_.move(from, to, line_.before(to));
  if (!moved_well(budget, from, to, cost)) line_.undo(mark);
}

// Whether no run between two slots is a transfer, or touches what is stored: they take as long in any order, and nobody
// else sees when each of them ended.
bool Shaver::calm(int from, int to) const {
  const SequenceProblem& p = line_.problem();
  const int last = std::max(from, to);
  const auto stored = [&](int x) { return p.stores[x] >= 0 && !line_.runs_of(p.stores[x]).empty(); };
  for (int slot = line_.next(line_.before(std::min(from, to) - 1)); slot <= last; slot = line_.next(slot)) {
    if (slot == line_.end()) break;
    const SequenceOp& op = p.ops[line_.op(slot)];
    if (op.transfer != Transfer::kNone || std::any_of(op.reads.begin(), op.reads.end(), stored) ||
        std::any_of(op.makes.begin(), op.makes.end(), stored))
      return false;
  }
  return true;
}

// Whether the peak is within the budget, and no op waits longer for transfers than at this cost, which is then the new
// one.
bool Shaver::moved_well(Bytes budget, int from, int to, Cost& cost) const {
  if (line_.peak() > budget) return false;
  if (!line_.problem().transfers() || calm(from, to)) return true;
  const Cost now = line_.cost();
  if (now > cost) return false;
  cost = now;
  return true;
}

void Shaver::jolt() {
  const SequenceProblem& p = line_.problem();
  const int slot = 1 + below(line_.end() - 1);
  if (line_.op(slot) < 0) {
    const int op = below(p.n());
    if (!p.ops[op].once && line_.can_put(op, slot)) line_.put(op, slot, line_.before(slot));
  } else if (line_.can_take(slot)) {
    line_.take(slot);
  }
}

}  // namespace tide
