// Regions of ops that are cut along one axis each and run in stripes: who is cut with whom, and what it takes.
//
// The ops stand in one order. A region is an interval of it and a seed: an op and an axis. What follows is worked out
// here as lowtide.transform.cut and lowtide.transform.parts do it, who are the reference: the same parts, slices and
// joins in the same sequence, but as storages only, so that a candidate costs microseconds.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/model.h"
#include "cut/pieces.h"
#include "cut/rows.h"

namespace tide {

// Rows [floor((a num + lo) / den), floor(((b - 1) num + hi) / den) + 1) for rows [a, b) of an axis; axis -1: all.
struct RowIndex {
  int axis = -1;
  int64_t num = 1, den = 1, lo = 0, hi = 0;
};

inline constexpr Bytes kNoLimit = Bytes{1} << 62;

struct CutAxis {
  int64_t size;
  int64_t aligned;  // rows that no part of a result divides, as the access has it
  int64_t grain;    // rows at multiples of which parts begin, as they are spelled; 0: cannot be cut
  bool reduced;
  std::vector<std::pair<int64_t, Bytes>> workspace;  // of a part of so many rows at the most, ascending
  Bytes padded_row = 0;        // of the first operand, where its parts may have to be padded by an op of their own
  bool padded_beside = false;  // whether another dimension of it is padded, too
  int64_t stretch = 0;  // rows that a part makes for each that it reads of the first operand, if not just its own
  std::vector<std::pair<int64_t, int64_t>> weights;  // of a part of so many rows, ascending; in a line between two
};

struct CutRead {
  int tensor;
  std::vector<RowIndex> dims;
  bool may_overwrite;  // whether the result may lie where this operand lay, if that is of equal size and dies here
  bool first;          // whether it is the operand whose memory a view hands on
};

struct CutMade {
  int tensor;
  std::vector<int> axes;  // of each dimension; -1: whole
};

struct CutOp {
  std::vector<CutAxis> axes;
  std::vector<CutRead> reads;  // operands that are no constants, by position
  std::vector<CutMade> made;
  bool view;
  Bytes workspace;
  std::vector<int> touched;                       // storages of the graph that is not cut
  std::vector<std::pair<int, Bytes>> overwrites;  // (storage, saving), there
  int64_t weight = 1;
};

struct CutTensor {
  Bytes size;
  std::vector<int64_t> shape;
  int producer;              // position; -1: none
  std::vector<int> readers;  // positions, each once
  bool output;               // of the graph
  int storage;               // -1: not counted
  std::vector<int> handed;   // dimensions along which its pieces, put together by nobody, may be what others read
};

struct CutStorage {
  Bytes size;
  int first, last;  // steps; -1: from the start, n: to the end
};

// What an op between parts weighs, by the bytes that it writes.
struct GlueWeight {
  int64_t fixed = 1, per_mebibyte = 0;
};

// A graph in one order. Weights are what a way is to have little of: 1 for every op, or nanoseconds.
struct CutModel {
  std::vector<CutOp> ops;
  std::vector<CutTensor> tensors;
  std::vector<CutStorage> storages;
  std::vector<Bytes> footprint;  // of each step, uncut
  std::vector<Bytes> before;     // bytes live before each step, and behind the last
  bool sums_in_place;            // whether what adds two sums may write over one
  int most_joined = 0;           // operands that an op which joins may have; 0: any number
  bool weighed = false;          // whether weights are anything but 1 for every op
  bool again = false;            // whether regions may run rows again
  GlueWeight slice, join, merge;
  // What a region reads and makes may lie in slow memory: a slice of what comes from elsewhere is loaded, pieces of
  // what leaves are stored when they are done, and only what is read whole is there whole, from its first use to its
  // last.
  bool transfers = false;
  GlueWeight transfer;  // of those loads and stores
  // Bytes that one tensor may have (0: any number); and what one of more bytes counts for in addition to these, more
  // than any footprint: so that a limit on the peak is one on such tensors first.
  Bytes most_tensor = 0, above_most = 0;

  // What a tensor of so many bytes counts for as a footprint, because of its size alone.
  Bytes too_large(Bytes size) const { return most_tensor > 0 && size > most_tensor ? above_most + size : 0; }
  // Limits the size of tensors; the caller's are not limited.
  void limit_tensors(Bytes most);
  // Raises the footprint of steps that make a larger tensor, once it is known otherwise.
  void raise_too_large();
};

// The dimension of a tensor along which its op is cut, by the axis of each op (-1: whole); -1: none.
int dim_along(const CutModel& model, const std::vector<int>& axes, int op, int tensor);
// Whether an op and those that make what it reads are cut along the same dimensions.
bool agrees(const CutModel& model, const std::vector<int>& axes, int op);
// Whether pieces of a tensor that is cut along a dimension may go to its readers as they are.
bool is_handed(const CutModel& model, int tensor, int dim);

// What stripes are equal parts of, and how far the other ops run in each.
enum class Pace {
  kPull,       // of what the last ops make: others run as far as they are needed
  kPush,       // of what the first ones make: others run as far as they can
  kLate,       // likewise, but who makes no less than it reads runs no further than its readers do
  kPullAgain,  // as kPull, and rows run again where that is less to keep
  kLateAgain,
};

inline bool pulls(Pace pace) { return pace == Pace::kPull || pace == Pace::kPullAgain; }
inline bool runs_again(Pace pace) { return pace == Pace::kPullAgain || pace == Pace::kLateAgain; }

struct RegionCost {
  Bytes peak = 0;
  int ops = 0;  // how many there are in all: parts, slices, joins, and what runs whole; 0: the peak is this or higher
  int64_t weight = 0;  // of all of these
};

// Evaluates regions of one model; keeps its buffers.
class Regions {
 public:
  explicit Regions(const CutModel& model);

  // Finds the ops that are cut with op `seed` along `axis`, of positions [begin, end); false: they cannot be.
  bool grow(int begin, int end, int seed, int axis);
  // Axis of each position after `grow`, -1 for what is not cut: in the interval it runs before the stripes.
  const std::vector<int>& axes() const { return axes_; }
  // What comes in pieces to the regions that follow, and what they leave so; all else is whole at both ends.
  void hand(const Pieces& coming, const Pieces& leaving);
  // What the region that `grow` found takes in so many stripes. Given up above a limit: then the peak is one that it
  // takes at the least.
  RegionCost cost(int stripes, Pace pace, Bytes limit = kNoLimit);
  // Bytes that are there all the time while positions [begin, end) run, however they are cut.
  Bytes throughout(int begin, int end) const;
  // The most stripes that differ.
  int64_t most_stripes(Pace pace) const;
  // Whether some op of the region would run rows again where that is less to keep.
  bool would_run_again();

 private:
  // Some rows of a tensor between ops of the region, [first, end) of its dimension.
  struct Rows {
    int piece = -1;
    int64_t first = 0, end = 0;
  };
  // A tensor that a cut op makes, by dimension: -1: whole, or a sum.
  struct Held {
    int dim = -1;
    int output = -1;                            // of `outputs_`
    bool leaves = false;                        // someone else than parts of the region reads it
    bool lasting = false;                       // pieces of it are there to the end
    bool counts = false;                        // no view, in memory that is another's
    std::vector<int64_t> lows;                  // of each stripe: the first row that it or a later one reads
    std::vector<int> lasts;                     // and which op of it reads last; -1: none does
    std::vector<int64_t> last_lows, last_ends;  // and what rows that one reads, or `lows` behind it: the first, the end
    std::vector<int> pieces;
    Bytes left = 0;   // of these
    Bytes bytes = 0;  // of those that are there, at the least
    Rows fresh, kept, have;
  };
  struct Sum {
    int piece = -1;
    int64_t end = 0;
  };
  struct Slice {
    int from, dim;
    RowRange rows;
    int piece;
    int next;  // of the same tensor or piece; -1: none
  };
  struct Room {
    Bytes size;
    bool there;                 // before the region
    bool stays;                 // behind it
    bool own;                   // of the region, and no storage of the model
    bool lasting = false;       // touched by what joins the pieces in the end
    int first = -1, last = -1;  // steps that touch it; -1: none yet
  };
  struct Piece {
    int room;
    Bytes size;
    bool left = false;  // of a tensor that leaves
    int slices = -1;    // the last one of its rows
  };
  struct Step {
    size_t overwrites;  // where those of this step end
    Bytes workspace;
  };

  // What a cut op reads, `index` of dimension `dim` along its axis (-1: whole); `edge`: whose rows are worked out.
  struct Input {
    int tensor, dim, edge;
    const RowIndex* index;
    const CutRead* read;
  };
  // A read of what the region makes in parts.
  struct Edge {
    int reader;  // position
    const RowIndex* index;
    const CutAxis* axis;  // of the reader
  };
  struct Output {
    int tensor, dim, edges, edges_end;
  };
  // A cut op and its part of the lists of inputs, outputs and reads of these.
  struct Linked {
    int op;
    const CutAxis* axis;
    int inputs, inputs_end, outputs, outputs_end, edges, edges_end;
    bool outside;            // whether anybody but parts of the region reads what it makes
    bool leaves;             // or nobody reads one of what it makes
    bool again;              // whether it may run rows again, where that is less to keep
    std::vector<int> reads;  // tensors that the region makes in parts, in the order in which they are made
  };

  bool readers_of(int op);
  bool want(int op, int axis);
  void link();
  void pull_ends();
  void pull_end(const Linked& linked);
  void push_ends();
  int64_t pushed_end(const Edge& edge, int64_t there, int64_t size) const;
  void late_ends();
  bool settle(Pace pace);
  void find_again();
  void find_begins(const Linked& linked);
  void find_needs(int edge, int64_t size);
  bool skip_unread(const Linked& linked);
  void find_held(const Output& output);
  void recount(Held& held, int tensor, int stripe);
  void whole(int op);
  void clear();
  void begin();
  void look_at(int stripes, const std::vector<int>& which);
  Bytes ends_take(int stripes, Pace pace, Bytes limit);
  Bytes stripe(int i, Bytes always, Bytes limit);
  Bytes lone(int i, Bytes always, Bytes limit);
  void part(const Linked& linked, int stripe);
  void keep(int tensor, int stripe);
  void have(Held& held, int tensor);
  Rows around(Held& held, int tensor, RowRange rows);
  void add(int tensor, int piece, int op, RowRange rows);
  int given(const Linked& linked, const Input& input, RowRange rows, int stripe);
  Bytes padded(int op, const CutRead& read, RowRange rows) const;
  RowRange made(int op, RowRange rows) const;
  int pad(int from, Bytes size);
  void join(int tensor);
  void leave(int tensor);
  bool melts(int tensor, int dim) const;
  static bool among(const Pieces& pieces, int tensor, int dim);
  RowRange equal_rows(int64_t size, int k) const;
  int melting(int tensor, int dim);
  void touch_rows(int tensor, int dim, RowRange rows);
  int as_it_comes(int tensor, int dim, RowRange rows);
  int slice(int from, int tensor, int dim, RowRange rows);
  int piece(Bytes size);
  int piece_of_storage(int storage, Bytes size);
  int room_of(int storage);
  Bytes bytes(int tensor, int dim, RowRange rows) const;
  RowRange need(const CutAxis& axis, const RowIndex& index, RowRange rows, int64_t size) const;
  RowRange rows(int op, int stripe) const;
  Bytes workspace(int op, RowRange rows) const;
  void note(int tensor, Bytes size);
  void weigh(const GlueWeight& glue, Bytes written);
  void touch_room(int room);
  void touch(int piece) { touch_room(pieces_[piece].room); }
  void close(Bytes workspace) { steps_.push_back({overwrites_.size(), workspace}); }
  Bytes so_far(Bytes base);
  Bytes sweep(Bytes base, bool all);

  const CutModel& m_;
  int begin_ = 0, end_ = 0;
  int count_ = 0;        // stripes of the region
  std::vector<int> at_;  // those that are looked at, each with all behind the one before it
  int stripes_ = 0;      // how many these are
  std::vector<int> axes_, queue_;
  Pieces coming_, leaving_;
  std::vector<int> cut_;  // positions that are cut, ascending
  bool is_linked_ = false;
  std::vector<Linked> linked_;  // of these, as many as are cut
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<Edge> edges_;
  std::vector<RowRange> needs_;  // of each edge, of each stripe
  std::vector<RowRange> spans_;
  std::vector<std::vector<int64_t>> ends_;  // of each position of the interval
  std::vector<int64_t> pushed_;
  bool again_ = false;                        // whether rows run again now
  std::vector<std::vector<int64_t>> begins_;  // of each position that runs rows again; empty: every row runs once
  std::vector<int> begun_;                    // those
  std::vector<std::vector<int>> instead_;     // of each that may: the tensors that are kept in its place
  std::vector<Held> held_;                    // of each tensor of the model; dim -1: not between ops of the region
  std::vector<int> held_ids_;
  std::vector<Sum> sums_;
  std::vector<Slice> slices_;
  std::vector<int> sliced_;  // of each tensor of the model: the last slice of it from elsewhere
  std::vector<Slice> pads_;  // `from` with padding; the rows say how many bytes
  std::vector<Piece> pieces_;
  std::vector<Room> rooms_;
  std::vector<int> room_of_;                  // of each storage of the model; -1: none yet
  std::vector<std::pair<int, int>> melting_;  // tensors whose rows go one by one, and the room of the first rows
  std::vector<int> roomed_;
  Bytes too_large_ = 0;   // what the largest tensor counts for by its size alone
  Bytes held_bytes_ = 0;  // of rows and sums that are there now, at the least
  int64_t weight_ = 0;
  Bytes always_ = 0;   // there all the time
  Bytes local_ = 0;    // of the rooms of storages that are there before the region
  Bytes staying_ = 0;  // and of those of them that are there behind it, too
  std::vector<Step> steps_;
  std::vector<std::pair<int, Bytes>> overwrites_;
  std::vector<Bytes> come_, gone_;            // of each step
  std::vector<int> given_, results_, rough_;  // of a part
  std::vector<int> kept_;                     // rooms
};

}  // namespace tide
