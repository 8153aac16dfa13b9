// Algorithm 2 of HMCOS: a schedule of least peak for one graph of sequences and groups.
//
// A partial schedule is known by the set of vertices that have run (the paper: by its zero-indegree set, which is as
// much). All that a vertex needs to know of that set is, for each storage that it shares with others, whether it has
// begun and whether it will die: its value context (equation 6), kept as two bits a storage.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/bits.h"
#include "papers/hmcos_hierarchy.h"

namespace tide::hmcos {

constexpr Bytes kNoBudget = std::numeric_limits<Bytes>::max() / 2;

// Two bits for each open storage of a unit, 32 to a word: begun before, dies with the unit's last use.
using Context = std::vector<uint64_t>;
inline bool begun(const Context& c, int slot) { return c[slot >> 5] >> (2 * (slot & 31)) & 1; }
inline bool dies(const Context& c, int slot) { return c[slot >> 5] >> (2 * (slot & 31) + 1) & 1; }

// A sequence, compiled: its footprints in a context, without looking at the model again.
class Sequence {
 public:
  Sequence(const Model& model, const std::vector<int>& ops);

  const std::vector<int>& open() const { return open_; }
  // Largest stable footprint, relative to what is live before.
  Bytes peak(const Context& context) const;

 private:
  struct Step {
    Bytes plus, minus, workspace, saving;  // bytes for certain
    int items;                             // end of the step's items
  };
  struct Item {
    enum Kind : uint8_t { kBegin, kDie, kSave } kind;
    int slot;
    Bytes bytes;
  };
  std::vector<int> open_;  // storages that others touch too, ascending
  std::vector<Step> steps_;
  std::vector<Item> items_;
};

struct Plan {
  Bytes peak = 0;              // relative to what is live before
  std::vector<int> sequences;  // in order
};

// The clock, the memory and the counters of a run.
class Work {
 public:
  Work(const Options& options, Bytes best);

  // Whether to stop; asks the clock once in a while.
  bool stop() {
    if (!stopped_ && ++asked_ % 1024 == 0) look();
    return stopped_.has_value();
  }
  void look();
  // Bytes that partial schedules take now.
  void use(size_t bytes);
  size_t memory() const { return memory_; }
  double seconds() const;
  std::optional<Stopped> stopped() const { return stopped_; }
  size_t most_memory() const { return most_; }

  const Options& options;
  Iteration now;
  Bytes best;

 private:
  double started_;
  std::optional<Stopped> stopped_;
  uint64_t asked_ = 0;
  size_t memory_ = 0, most_ = 0;
};

class Group;

// A graph of sequences and groups.
class Level {
 public:
  struct Vertex {
    int sequence = -1;
    Group* group = nullptr;
    std::vector<int> slots;  // places in the level's storages of what the vertex shares
    Bytes fixed = 0;         // change of the transient footprint by storages of its own
  };

  // `vertices` in the order in which ready ones are tried, with the sequences that each is made of.
  Level(const Model& model, const Hierarchy& h, const std::vector<Sequence>& sequences, std::vector<Vertex> vertices,
        const std::vector<std::vector<int>>& members);

  const std::vector<int>& storages() const { return storages_; }
  // Per storage: live before the level's first vertex; dies with the last of its vertices that touches it.
  struct Ends {
    std::vector<char> begun, dies;
  };
  // Least peak of all schedules, if that is at most `budget`. Counts into `expanded` and `states`.
  bool search(const Ends& ends, Bytes live, Bytes budget, Work& work, int64_t& expanded, int64_t& states, Plan& plan);
  // The simple schedule of a level that has sequences only: its vertices as numbered.
  Plan simple(const Ends& ends) const;

 private:
  struct Layer;
  struct Trail;
  void context(const Vertex& v, const Ends& ends, const Word* done, Context& out) const;
  Bytes change(const Vertex& v, const Context& context) const;

  const Model& model_;
  const std::vector<Sequence>& sequences_;
  std::vector<Vertex> vertices_;
  std::vector<int> storages_;               // shared by vertices, or with the world outside; ascending
  std::vector<std::vector<int>> touchers_;  // vertices of each
  std::vector<std::vector<int>> preds_, succs_;
  int words_;
};

// A group with what was found out about it, kept across states and iterations (optimisation 3).
class Group {
 public:
  Group(const Model& model, const Hierarchy& h, const std::vector<Sequence>& sequences, std::vector<int> members,
        const std::vector<int>& rank);
  ~Group();

  const std::vector<int>& open() const { return open_; }
  // ScheduleVertex for a group: a schedule whose peak is at most `budget`, or null. One that does not exceed `free`
  // need not be the best one (optimisation 2).
  const Plan* schedule(const Context& context, Bytes free, Bytes budget, Work& work);

 private:
  struct Entry {
    Plan simple, best;
    bool searched = false, found = false;
    Bytes refuted = 0;  // once searched and not found: no schedule has a peak of this or less
  };
  std::vector<int> open_;
  std::unique_ptr<Level> level_;
  std::vector<int> place_;  // per open storage, its place in the level's storages
  Level::Ends ends_;
  std::map<Context, Entry> memo_;
  Entry scratch_;
};

}  // namespace tide::hmcos
