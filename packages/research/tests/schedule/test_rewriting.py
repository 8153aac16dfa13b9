"""SERENITY's rewriter on all of a graph: node counts as printed, no higher least peak, operands."""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.read import read_model
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.schedule.rewriting import rewritten
from lowtide_research.schedule.serenity import Serenity
from lowtide_research.schedule.serenity_parts import at_hourglasses


def least_peak(graph: Graph) -> int:
    """Bytes, proved."""
    schedule = Serenity(sequences=True).schedule(memory_model(graph, BUILT_IN["strict"]), Limits())
    assert schedule.stopped == "proof"
    return schedule.lower_bound


def test_nodes_of_table_2() -> None:
    """Parts of 33, 28 and 29 nodes, and two by two one more for each third operand of a sum."""
    graph = zoo.build("swiftnet_cells").graph()
    one, two = rewritten(graph), rewritten(graph, pairs=True)
    assert [len(part) for part in at_hourglasses(one)] == [33, 28, 29]
    assert [len(part) for part in at_hourglasses(two)] == [35, 29, 29]
    assert least_peak(one) <= least_peak(graph)
    assert least_peak(two) <= least_peak(one)


def test_nothing_to_rewrite() -> None:
    """A graph whose concats no consumer takes apart stays what it is."""
    graph = zoo.build("randwire_cifar100_cell_c:nodes=8").graph()
    assert [op.id for op in rewritten(graph).ops] == [op.id for op in graph.ops]


def test_sums_have_the_operands_of_the_concat(tmp_path: Path) -> None:
    """A convolution over a concat of three becomes a convolution of each operand, and one sum that reads each once."""
    shapes = [(1, c, 4, 4) for c in (1, 2, 3)]
    weight = np.ones((5, 6, 3, 3), np.float32)
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"r{i}"]) for i in range(3)]
    nodes += [
        helper.make_node("Concat", ["r0", "r1", "r2"], ["c"], axis=1),
        helper.make_node("Conv", ["c", "w"], ["y"], pads=[1] * 4, kernel_shape=[3, 3]),
        helper.make_node("Relu", ["r0"], ["z"]),  # beside the others: the graph is not divided at the concat
    ]
    ends = [helper.make_tensor_value_info(f"x{i}", 1, s) for i, s in enumerate(shapes)]
    out = [helper.make_tensor_value_info("y", 1, (1, 5, 4, 4)), helper.make_tensor_value_info("z", 1, shapes[0])]
    graph = helper.make_graph(nodes, "g", ends, out, [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "g.onnx")
    changed = rewritten(read_model(tmp_path / "g.onnx"))
    assert sorted(op.type for op in changed.ops) == ["Conv"] * 3 + ["Relu"] * 4 + ["Sum"]
    total = next(op for op in changed.ops if op.type == "Sum")
    makers = [changed.op_by_id[changed.producer[t]] for t in total.inputs]
    read = [changed.tensor_by_id[m.inputs[0]].shape for m in makers]
    assert sorted(s for s in read if s is not None) == sorted(shapes)
    assert sum(changed.tensor_by_id[m.inputs[1]].size for m in makers) == weight.nbytes
