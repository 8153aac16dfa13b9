"""Products with a large weight as several of some columns each, so that less of the weight is in memory twice.

As a session opens, a kernel copies its weight into a layout of its own, one node after the other, and the weight goes
when its copy is there. A weight that is larger than all that comes later is in memory twice when the process has most::

    Gemm(x, W) -> y      Gemm(x, W[:, :64]) -> a    Gemm(x, W[:, 64:]) -> b    Concat(a, b) -> y

The columns are the same bits, which a run of both shows before anything is changed.
"""

from __future__ import annotations

from collections import Counter
from math import ceil, prod
from pathlib import Path
from typing import Any

from lowtide.read.onnx.proto import all_graphs, names_read
from lowtide.run.ort_session import new_session

_PRODUCTS = frozenset({"DynamicQuantizeMatMul", "FusedGemm", "FusedMatMul", "Gemm", "MatMul"})
"""Ops whose weight is the second operand."""
PACKED = {
    **dict.fromkeys(_PRODUCTS | {"MatMulInteger"}, (1,)),
    **dict.fromkeys(("DynamicQuantizeLSTM", "GRU", "LSTM"), (1, 2)),
}
"""Operands that kernels copy into a layout of their own when the session opens."""
_RUN_BYTES = 2**20
"""What a run takes beyond an open session, at the least: code of kernels, if nothing else."""
_MULTIPLE = 64
"""Of which each node but the last has its columns: kernels compute this many together."""


def split_packed(file: Path) -> None:
    """Write an optimised file anew in which no product's weight makes opening a session take more than a run; what the
    file computes stays as it is, bit for bit. A product stays if concatenating its
    parts would take more than is saved."""
    import onnx

    proto = onnx.load(str(file), load_external_data=False)
    graph = _Products(proto.graph)
    parts = {k: made for k in graph.too_large() if (made := graph.in_parts(k))}
    if parts:
        kept = [part for k, node in enumerate(proto.graph.node) for part in parts.get(k, [_copy(node)])]
        del proto.graph.node[:]
        proto.graph.node.extend(kept)
        read = Counter(name for each in all_graphs(proto.graph) for node in each.node for name in node.input)
        tensors = [_copy(t) for t in (*proto.graph.initializer, *graph.new.values()) if read[t.name]]
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(tensors)
        proto.graph.value_info.extend(graph.declared)
        file.write_bytes(proto.SerializeToString())


class _Products:
    """A graph whose products are to be split, and the weights and shapes of the parts."""

    def __init__(self, graph: Any) -> None:
        self.nodes = list(graph.node)
        self.weights = {t.name: t for t in graph.initializer if t.data_location != t.EXTERNAL}
        values = (*graph.value_info, *graph.input, *graph.output)
        self.shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}
        self.shapes |= {t.name: tuple(t.dims) for t in graph.initializer}
        self.readers = Counter(name for node in self.nodes for name in names_read(node))
        self.new: dict[str, Any] = {}
        self.declared: list[Any] = []

    def too_large(self) -> dict[int, int]:
        """Nodes by number whose weight is to be split, and how many parts are enough."""
        packed = [
            (k, node.input[i])
            for k, node in enumerate(self.nodes)
            for i in PACKED.get(node.op_type, ())
            if i < len(node.input) and node.input[i] in self.weights
        ]
        sizes = {name: tensor.ByteSize() for name, tensor in self.weights.items()}
        left = sum(sizes[name] for _, name in packed)
        spare = _RUN_BYTES + sum(sizes.values()) - sum(sizes[name] for name in {name for _, name in packed})
        self.counts: dict[int, int] = {}
        for k, name in packed:
            left -= sizes[name]
            made = 4 * prod(self.shapes.get(self.nodes[k].output[0], (0,)))
            splits = self.nodes[k].op_type in _PRODUCTS and self.readers[name] == 1 and len(self.shapes[name]) == 2
            if splits and made and sizes[name] > spare + left + made:
                self.counts[k] = ceil(sizes[name] / (spare + left))
        return self.counts

    def in_parts(self, k: int) -> list[Any]:
        """The nodes that take a node's place; none if they compute other bits."""
        from onnx import TensorProto, helper, numpy_helper

        node = self.nodes[k]
        turned = any(a.name == "transB" and a.i for a in node.attribute)
        width = self.shapes[node.input[1]][0 if turned else 1]
        step = ceil(width / self.counts[k] / _MULTIPLE) * _MULTIPLE
        shape, parts = self.shapes[node.output[0]], []
        concat = helper.make_node("Concat", [], node.output, f"{node.output[0]}/columns", axis=len(shape) - 1)
        by_columns = {name for name in node.input[2:] if self.shapes.get(name, ())[-1:] == (width,)}
        if not by_columns <= self.weights.keys() or not all(self.shapes.get(node.input[0], (0,))):
            return []
        new: dict[str, Any] = {}
        for begin in range(0, width, step):
            part, end = _copy(node), min(begin + step, width)
            part.name, part.output[:] = "", [f"{node.output[0]}_columns_{begin}"]
            for i, name in enumerate(node.input):
                if i == 1 or name in by_columns:
                    values = numpy_helper.to_array(self.weights[name])
                    cut = values[begin:end] if i == 1 and turned else values[..., begin:end]
                    part.input[i] = f"{name}_columns_{begin}"
                    new[part.input[i]] = numpy_helper.from_array(cut.copy(), part.input[i])
            concat.input.append(part.output[0])
            parts.append(part)
        parts.append(concat)
        if not self._same(node, parts, new):
            return []
        self.new |= new
        self.declared += [
            helper.make_tensor_value_info(part.output[0], TensorProto.FLOAT, (*shape[:-1], min(step, width - k * step)))
            for k, part in enumerate(parts[:-1])
        ]
        return parts

    def _same(self, node: Any, parts: list[Any], new: dict[str, Any]) -> bool:
        """Whether nodes compute the bits that one computes, of random numbers."""
        import numpy as np
        from onnx import TensorProto, helper

        x = np.random.default_rng(0).standard_normal(self.shapes[node.input[0]]).astype(np.float32)
        read_from = [helper.make_tensor_value_info(node.input[0], TensorProto.FLOAT, x.shape)]
        made = [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)]
        versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]

        def run(nodes: list[Any], weights: dict[str, Any]) -> Any:
            read = {name for each in nodes for name in each.input}
            kept = [t for name, t in weights.items() if name in read]
            graph = helper.make_graph(nodes, "product", read_from, made, kept)
            model = helper.make_model(graph, opset_imports=versions, ir_version=8)
            return new_session(model.SerializeToString(), "DISABLE_ALL").run(None, {node.input[0]: x})[0]

        try:
            return run([_copy(node)], self.weights).tobytes() == run(parts, self.weights | new).tobytes()
        except Exception:  # onnxruntime's own kinds of error have no common base: another operand is no constant
            return False


def _copy(message: Any) -> Any:
    return type(message).FromString(message.SerializeToString())
