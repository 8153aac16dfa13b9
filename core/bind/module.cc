// The Python module: what the core takes and gives, as plain lists and read-only records.
#include "base/model.h"

#include <stdexcept>

#include "bind/record.h"

namespace nb = nanobind;
using namespace nb::literals;
using tide::Bytes;

namespace {

tide::Model make_model(const std::vector<std::vector<int>>& preds, const std::vector<Bytes>& sizes,
                       const std::vector<std::vector<int>>& users, const std::vector<bool>& at_start,
                       const std::vector<bool>& at_end, const std::vector<Bytes>& workspace,
                       const std::vector<std::vector<std::pair<int, Bytes>>>& overwrites) {
  tide::Model model;
  model.n = static_cast<int>(preds.size());
  model.preds = preds;
  for (size_t s = 0; s < sizes.size(); ++s) model.storages.push_back({sizes[s], users[s], at_start[s], at_end[s]});
  model.workspace = workspace;
  model.overwrites.resize(preds.size());
  for (size_t v = 0; v < overwrites.size(); ++v)
    for (const auto& [storage, saving] : overwrites[v]) model.overwrites[v].push_back({storage, saving});
  model.derive();
  return model;
}

tide::Lives profile(const tide::Model& model, const std::vector<int>& order) {
  std::vector<char> seen(model.n);
  for (int v : order)
    if (v < 0 || v >= model.n || seen[v]++) throw std::invalid_argument("not an order of the model's ops");
  if (order.size() != seen.size()) throw std::invalid_argument("not an order of the model's ops");
  return tide::lives(model, order);
}

}  // namespace

namespace bind {
void order(nb::module_& m);     // bind/order.cc
void place(nb::module_& m);     // bind/place.cc
void papers(nb::module_& m);    // bind/papers.cc
void spill(nb::module_& m);     // bind/spill.cc
void cut(nb::module_& m);       // bind/cut.cc
void loop(nb::module_& m);      // bind/loop.cc
void sequence(nb::module_& m);  // bind/sequence.cc
void flow(nb::module_& m);      // bind/flow.cc
}  // namespace bind

NB_MODULE(_core, m) {
  m.doc() =
      "lowtide's native core: searches for orders, places and traffic. Ops and storages are positions; sizes are "
      "bytes.";
  nb::class_<tide::Model>(m, "Model", "Ops, the storages they touch, and what they may overwrite.")
      .def(
          "__init__",
          [](tide::Model* self, const std::vector<std::vector<int>>& preds, const std::vector<Bytes>& sizes,
             const std::vector<std::vector<int>>& users, const std::vector<bool>& at_start,
             const std::vector<bool>& at_end, const std::vector<Bytes>& workspace,
             const std::vector<std::vector<std::pair<int, Bytes>>>& overwrites) {
            new (self) tide::Model(make_model(preds, sizes, users, at_start, at_end, workspace, overwrites));
          },
          "preds"_a, "sizes"_a, "users"_a, "at_start"_a, "at_end"_a, "workspace"_a, "overwrites"_a)
      .def("peak", &tide::peak, "order"_a)
      .def("profile", &profile, "order"_a, "The order step by step.");
  using L = tide::Lives;
  bind::record(m, "Lives", "An order step by step.",
               bind::Field{"footprint", &L::footprint, "Bytes live while each step runs."},
               bind::Field{"transient", &L::transient, "Bytes live after each step."},
               bind::Field{"first", &L::first, "Step at which each storage begins; -1: before step 0."},
               bind::Field{"last", &L::last, "Step at which each storage ends; the number of steps: not at all."},
               bind::Field{"in_place", &L::in_place, "Ops that write in place, and which of their overwrites."});
  bind::order(m);
  bind::place(m);
  bind::papers(m);
  bind::spill(m);
  bind::cut(m);
  bind::loop(m);
  bind::sequence(m);
  bind::flow(m);
}
