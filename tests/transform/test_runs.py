"""A sequence as a graph: every run an op of its own, which reads what the runs before it made."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.transform.runs import apply
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.order import check_order, simulate
from lowtide.verify.check.recompute import footprints_of_runs
from support.sequences import STRICT, costly_graph, own


def chain() -> Graph:
    """a makes s; b and d read it; d makes the output."""
    tensors = (
        Tensor(0, 1, Kind.INPUT), Tensor(1, 4), Tensor(2, 2), Tensor(3, 9), Tensor(4, 1, Kind.OUTPUT),
    )  # fmt: skip
    ops = (Op(10, (0,), (1,), "a"), Op(11, (1,), (2,), "b"), Op(12, (2,), (3,), "c"), Op(13, (3, 1), (4,), "d"))
    return Graph("chain", tensors, ops)


def test_a_second_run_serves_those_behind_it():
    """Its readers read its own tensors, and the rewrite says so."""
    runs = apply(chain(), [0, 1, 2, 0, 3])
    assert runs.order == (10, 11, 12, 14, 13)
    assert [(r.op, r.of, r.replaced, r.outputs, r.readers, r.more) for r in runs.rewrites] == [
        (14, 10, 1, [5], [13], [])
    ]
    assert runs.graph.op_by_id[13].inputs == (3, 5)
    assert runs.graph.op_by_id[11].inputs == (1,)


def test_a_run_that_nobody_reads_is_left_out():
    """Once its op runs elsewhere; an op that nobody reads at all runs once."""
    assert apply(chain(), [0, 0, 1, 2, 0, 0, 3, 0]).order == (10, 11, 12, 14, 13)


def test_of_an_op_that_makes_an_output_the_last_run_keeps_its_name():
    """The graph's output is what is there at the end."""
    graph = Graph(
        "out",
        (Tensor(0, 1, Kind.INPUT), Tensor(1, 2, Kind.OUTPUT), Tensor(2, 1)),
        (Op(0, (0,), (1,)), Op(1, (1,), (2,))),
    )
    runs = apply(graph, [0, 1, 0])
    assert runs.order == (2, 1, 0)
    assert runs.graph.op_by_id[1].inputs == runs.graph.op_by_id[2].outputs
    assert runs.graph.tensor_by_id[runs.graph.op_by_id[0].outputs[0]].kind is Kind.OUTPUT


def test_a_view_of_a_clone_lies_in_the_clone():
    """Aliases follow what their op reads, also where they name the root."""
    tensors = (
        Tensor(0, 1, Kind.INPUT), Tensor(1, 4), Tensor(2, 4, alias_of=1), Tensor(3, 2, alias_of=1, alias_offset=2),
        Tensor(4, 5), Tensor(5, 1, Kind.OUTPUT),
    )  # fmt: skip
    ops = (
        Op(0, (0,), (1,), "make"), Op(1, (1,), (2,), type="aten.view"), Op(2, (2,), (3,), type="aten.slice.Tensor"),
        Op(3, (3,), (4,), "use"), Op(4, (4, 3), (5,), "late"),
    )  # fmt: skip
    graph = Graph("views", tensors, ops, dialect="aten")
    runs = apply(graph, [0, 1, 2, 3, 0, 1, 2, 4])
    again = runs.graph.op_by_id[4].inputs[1]
    made = runs.graph.op_by_id[next(r.op for r in runs.rewrites if r.of == 0)].outputs[0]
    assert runs.graph.tensor_by_id[again].alias_of == made
    assert profile(memory_model(runs.graph, STRICT), range(len(runs.order))).peak > 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_graph_needs_what_the_sequence_does(seed: int):
    """Step by step, for random sequences of random graphs."""
    graph = costly_graph(Random(seed), 8)
    order, _ = own(graph).core().shuffle(range(8), 20, seed)[-1]
    runs = apply(graph, order)
    of = {r.op: r.of for r in runs.rewrites}
    memory = work_out(runs.graph, STRICT)
    check_order(runs.graph, runs.order)
    plain = footprints_of_runs(graph, work_out(graph, STRICT), [of.get(v, v) for v in runs.order])
    assert list(simulate(runs.graph, memory, runs.order).footprint) == plain
