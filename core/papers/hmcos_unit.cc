#include <algorithm>
#include <chrono>

#include "papers/hmcos_level.h"

namespace tide::hmcos {

namespace {

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Work::Work(const Options& options, Bytes best) : options(options), best(best), started_(clock_seconds()) {}

double Work::seconds() const { return clock_seconds() - started_; }

void Work::look() {
  if (stopped_) return;
  const double now = seconds();
  if (now >= options.seconds)
    stopped_ = Stopped::kTime;
  else if (options.report && options.report(best, now))
    stopped_ = Stopped::kInterrupt;
}

void Work::use(size_t bytes) {
  memory_ = bytes;
  most_ = std::max(most_, bytes);
  if (bytes > options.memory_bytes && !stopped_) stopped_ = Stopped::kMemory;
}

Sequence::Sequence(const Model& model, const std::vector<int>& ops) {
  // Storages of the ops, with the first and the last step that touches each, and how many do.
  struct Use {
    int storage, first, last, count;
  };
  std::vector<std::pair<int, int>> touches;  // storage, step
  for (size_t i = 0; i < ops.size(); ++i)
    for (int s : model.touched[ops[i]]) touches.push_back({s, static_cast<int>(i)});
  std::sort(touches.begin(), touches.end());
  std::vector<Use> uses;
  for (const auto& [s, i] : touches) {
    if (uses.empty() || uses.back().storage != s) uses.push_back({s, i, i, 0});
    uses.back().last = i;
    ++uses.back().count;
  }
  std::vector<int> slot(uses.size(), -1);
  for (size_t u = 0; u < uses.size(); ++u)
    if (uses[u].count < static_cast<int>(model.storages[uses[u].storage].users.size())) {
      slot[u] = static_cast<int>(open_.size());
      open_.push_back(uses[u].storage);
    }
  for (size_t i = 0; i < ops.size(); ++i) {
    Step step{0, 0, model.workspace[ops[i]], 0, 0};
    for (size_t u = 0; u < uses.size(); ++u) {
      const Use& use = uses[u];
      const Storage& storage = model.storages[use.storage];
      const int at = static_cast<int>(i);
      if (use.first == at && !storage.at_start) {
        if (slot[u] < 0)
          step.plus += storage.size;
        else
          items_.push_back({Item::kBegin, slot[u], storage.size});
      }
      if (use.last != at || storage.at_end) continue;
      if (slot[u] < 0)
        step.minus += storage.size;
      else
        items_.push_back({Item::kDie, slot[u], storage.size});
      for (const Overwrite& o : model.overwrites[ops[i]]) {
        if (o.storage != use.storage) continue;
        if (slot[u] < 0)
          step.saving = std::max(step.saving, o.saving);
        else
          items_.push_back({Item::kSave, slot[u], o.saving});
      }
    }
    step.items = static_cast<int>(items_.size());
    steps_.push_back(step);
  }
}

Bytes Sequence::peak(const Context& context) const {
  Bytes live = 0, most = std::numeric_limits<Bytes>::min();
  int item = 0;
  for (const Step& step : steps_) {
    Bytes plus = step.plus, minus = step.minus, saving = step.saving;
    for (; item < step.items; ++item) {
      const Item& it = items_[item];
      if (it.kind == Item::kBegin) {
        if (!begun(context, it.slot)) plus += it.bytes;
      } else if (dies(context, it.slot)) {
        if (it.kind == Item::kDie)
          minus += it.bytes;
        else
          saving = std::max(saving, it.bytes);
      }
    }
    most = std::max(most, live + plus + step.workspace - saving);
    live += plus - minus;
  }
  return most;
}

Group::Group(const Model& model, const Hierarchy& h, const std::vector<Sequence>& sequences, std::vector<int> members,
             const std::vector<int>& rank) {
  std::sort(members.begin(), members.end(), [&](int a, int b) { return rank[a] < rank[b]; });
  for (const auto& [s, count] : touched_by(model, h, members))
    if (count < static_cast<int>(model.storages[s].users.size())) open_.push_back(s);
  std::vector<Level::Vertex> vertices(members.size());
  std::vector<std::vector<int>> parts;
  for (size_t v = 0; v < members.size(); ++v) {
    vertices[v].sequence = members[v];
    parts.push_back({members[v]});
  }
  level_ = std::make_unique<Level>(model, h, sequences, std::move(vertices), parts);
  // The ends of storages that stay inside are the model's; those of the others come with the context.
  const std::vector<int>& storages = level_->storages();
  for (int s : storages) {
    ends_.begun.push_back(model.storages[s].at_start);
    ends_.dies.push_back(!model.storages[s].at_end);
  }
  for (int s : open_)
    place_.push_back(static_cast<int>(std::lower_bound(storages.begin(), storages.end(), s) - storages.begin()));
}

Group::~Group() = default;

const Plan* Group::schedule(const Context& context, Bytes free, Bytes budget, Work& work) {
  const bool memo = work.options.memo;
  if (!memo) scratch_ = Entry();
  Entry& entry = memo ? memo_[context] : scratch_;
  const bool is_new = entry.simple.sequences.empty() && !entry.found && !entry.searched;
  if (!is_new) ++work.now.memo_hits;
  for (size_t k = 0; k < open_.size(); ++k) {
    ends_.begun[place_[k]] = begun(context, static_cast<int>(k));
    ends_.dies[place_[k]] = dies(context, static_cast<int>(k));
  }
  if (work.options.simple) {
    if (entry.simple.sequences.empty()) entry.simple = level_->simple(ends_);
    if (entry.simple.peak <= free) {
      ++work.now.simple;
      return &entry.simple;
    }
  }
  if (!entry.found && (!entry.searched || budget > entry.refuted)) {
    ++work.now.group_searches;
    entry.found = level_->search(ends_, 0, budget, work, work.now.group_expanded, work.now.group_states, entry.best);
    if (work.stopped()) return nullptr;
    entry.searched = true;
    entry.refuted = budget;
  }
  return entry.found && entry.best.peak <= budget ? &entry.best : nullptr;
}

}  // namespace tide::hmcos
