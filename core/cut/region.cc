#include "cut/region.h"

#include <algorithm>
#include <span>

#include "cut/rows.h"

namespace tide {

Regions::Regions(const CutModel& model)
    : m_(model),
      axes_(model.ops.size(), -1),
      ends_(model.ops.size()),
      begins_(model.ops.size()),
      instead_(model.ops.size()),
      held_(model.tensors.size()),
      sums_(model.tensors.size()),
      sliced_(model.tensors.size(), -1),
      room_of_(model.storages.size(), -1) {}

void CutModel::limit_tensors(Bytes most) {
  most_tensor = most;
  if (most == 0) return;
  Bytes all = 0, highest = 0;
  for (const CutTensor& tensor : tensors) all += tensor.size;
  for (const Bytes step : footprint) highest = std::max(highest, step);
  above_most = 2 * (all + highest);
  raise_too_large();
}

void CutModel::raise_too_large() {
  for (const CutTensor& tensor : tensors)
    if (tensor.producer >= 0 && !tensor.output)
      footprint[tensor.producer] = std::max(footprint[tensor.producer], too_large(tensor.size));
}

int dim_along(const CutModel& model, const std::vector<int>& axes, int op, int tensor) {
  for (const auto& made : model.ops[op].made)
    if (made.tensor == tensor)
      for (size_t d = 0; d < made.axes.size(); ++d)
        if (made.axes[d] == axes[op]) return static_cast<int>(d);
  return -1;
}

bool agrees(const CutModel& model, const std::vector<int>& axes, int op) {
  for (const auto& read : model.ops[op].reads) {
    int along = -1, count = 0;
    for (size_t d = 0; d < read.dims.size(); ++d) {
      if (read.dims[d].axis != axes[op]) continue;
      if (read.dims[d].num <= 0) return false;
      along = static_cast<int>(d);
      ++count;
    }
    if (count > 1) return false;
    const int maker = model.tensors[read.tensor].producer;
    if (maker < 0 || axes[maker] < 0) continue;
    const int cut = dim_along(model, axes, maker, read.tensor);
    if (cut < 0 || count != 1 || along != cut) return false;
  }
  return true;
}

bool is_handed(const CutModel& model, int tensor, int dim) {
  const auto& dims = model.tensors[tensor].handed;
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

void Regions::hand(const Pieces& coming, const Pieces& leaving) {
  coming_ = coming;
  leaving_ = leaving;
}

bool Regions::among(const Pieces& pieces, int tensor, int dim) {
  return std::find(pieces.begin(), pieces.end(), InPieces{tensor, dim}) != pieces.end();
}

bool Regions::want(int op, int axis) {
  if (axes_[op] >= 0) return axes_[op] == axis;
  axes_[op] = axis;
  queue_.push_back(op);
  return true;
}

bool Regions::readers_of(int op) {
  for (const auto& made : m_.ops[op].made) {
    const int d = dim_along(m_, axes_, op, made.tensor);
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

bool Regions::grow(int begin, int end, int seed, int axis) {
  for (const int op : cut_) axes_[op] = -1;
  cut_.clear();
  is_linked_ = false;
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
  if (fits) fits = std::all_of(cut_.begin(), cut_.end(), [&](int op) { return agrees(m_, axes_, op); });
  return fits;
}

// Who reads and makes what of the region, in lists that the stripes walk.
void Regions::link() {
  inputs_.clear();
  outputs_.clear();
  edges_.clear();
  if (linked_.size() < cut_.size()) linked_.resize(cut_.size());
  for (const int t : held_ids_) held_[t].dim = -1;
  held_ids_.clear();
  for (size_t k = 0; k < cut_.size(); ++k) {
    const int op = cut_[k];
    const CutOp& o = m_.ops[op];
    Linked& linked = linked_[k];
    linked.op = op;
    linked.axis = &o.axes[axes_[op]];
    linked.leaves = linked.outside = linked.again = false;
    linked.reads.clear();
    linked.outputs = static_cast<int>(outputs_.size());
    linked.edges = static_cast<int>(edges_.size());
    for (const auto& made : o.made) {
      const CutTensor& tensor = m_.tensors[made.tensor];
      Output output{made.tensor, dim_along(m_, axes_, op, made.tensor), static_cast<int>(edges_.size()), 0};
      bool inside = false, outside = tensor.output;
      for (const int reader : tensor.readers) {
        if (reader < begin_ || reader >= end_ || axes_[reader] < 0) {
          outside = true;
          continue;
        }
        inside = true;
        for (const auto& read : m_.ops[reader].reads)
          for (const auto& index : read.dims)
            if (read.tensor == made.tensor && index.axis == axes_[reader])
              edges_.push_back({reader, &index, &m_.ops[reader].axes[axes_[reader]]});
      }
      linked.outside = linked.outside || outside;
      linked.leaves = linked.leaves || outside || !inside;
      output.edges_end = static_cast<int>(edges_.size());
      outputs_.push_back(output);
      if (output.dim < 0) continue;
      Held& held = held_[made.tensor];
      held.dim = output.dim;
      held.output = static_cast<int>(outputs_.size()) - 1;
      held.leaves = outside;
      held.counts = !o.view;
      held_ids_.push_back(made.tensor);
    }
    linked.outputs_end = static_cast<int>(outputs_.size());
    linked.edges_end = static_cast<int>(edges_.size());
  }
  for (Linked& linked : std::span(linked_.data(), cut_.size())) {
    linked.inputs = static_cast<int>(inputs_.size());
    for (const auto& read : m_.ops[linked.op].reads) {
      Input input{read.tensor, -1, -1, nullptr, &read};
      for (size_t d = 0; d < read.dims.size(); ++d)
        if (read.dims[d].axis == axes_[linked.op]) {
          input.dim = static_cast<int>(d);
          input.index = &read.dims[d];
        }
      if (held_[read.tensor].dim >= 0) {
        const Output& output = outputs_[held_[read.tensor].output];
        for (int e = output.edges; e < output.edges_end; ++e)
          if (edges_[e].index == input.index) input.edge = e;
        linked.reads.push_back(read.tensor);
      }
      inputs_.push_back(input);
    }
    linked.inputs_end = static_cast<int>(inputs_.size());
    auto& reads = linked.reads;
    if (reads.size() > 1) {
      std::sort(reads.begin(), reads.end(), [&](int a, int b) { return held_[a].output < held_[b].output; });
      reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    }
  }
  always_ = throughout(begin_, end_);
  is_linked_ = true;
}

int64_t Regions::most_stripes(Pace pace) const {
  int64_t most = 0;
  const auto count = [&](int op) {
    const CutAxis& axis = m_.ops[op].axes[axes_[op]];
    most = std::max(most, ceil_div(axis.size, axis.grain));
  };
  for (const int op : cut_) {
    bool end = true;
    if (!pulls(pace)) {
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

Bytes Regions::throughout(int begin, int end) const {
  Bytes bytes = m_.before[begin];
  for (int op = begin; op < end; ++op)
    for (const int s : m_.ops[op].touched) {
      const CutStorage& storage = m_.storages[s];
      if (storage.first < begin && storage.last < end && storage.last == op) bytes -= storage.size;
    }
  return bytes;
}

}  // namespace tide
