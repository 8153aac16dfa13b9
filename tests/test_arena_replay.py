"""What plays a plan through in an arena notices when two tensors lie over each other that must not."""

import numpy as np

from lowtide.graph import Graph, Kind, Op, Tensor
from support.arena_replay import spoiled

GRAPH = Graph(
    "residual",
    (Tensor(0, 4, Kind.INPUT, "x"), Tensor(1, 4, Kind.ACTIVATION, "y"), Tensor(2, 4, Kind.OUTPUT, "z")),
    (Op(0, (0,), (1,), "double", "Mul"), Op(1, (0, 1), (2,), "add", "Add")),
)
NUMBERS = {name: np.frombuffer(data, np.uint8) for name, data in (("x", b"abcd"), ("y", b"efgh"), ("z", b"ijkl"))}


def test_what_is_read_later_must_stay() -> None:
    """The input is read by both ops: its place may be taken by the last result only."""
    assert not spoiled(GRAPH, (0, 1), {0: 0, 1: 4, 2: 0}, 8, NUMBERS)
    assert spoiled(GRAPH, (0, 1), {0: 0, 1: 0, 2: 4}, 8, NUMBERS) == "op 1 reads tensor 0, which is overwritten"
    assert spoiled(GRAPH, (0, 1), {0: 0, 1: 3, 2: 4}, 8, NUMBERS) == "op 1 reads tensor 0, which is overwritten"
