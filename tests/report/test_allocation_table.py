from pathlib import Path

import lowtide
from lowtide.allocate.buffers import Buffer, Rectangle, block
from lowtide.api.exports import layout_of
from lowtide.report.allocation_table import allocation_table
from lowtide.write.arena_map import map_of_buffers
from support.small_models import branches, graph_file, op, tensor

BUFFERS = """allocation of b, 6 steps; steps and addresses inclusive

arena:
steps       addresses                 bytes  in use  purpose  name
    0  - 2  0x00000000  - 0x0000000f     16      16  buffer   a
    2  - 4  0x00000010  - 0x00000017      8      24  buffer   b
    4  - 5  0x00000000  - 0x0000000f     16      24  buffer   c

alignment            1 B
most in use at once  24 B
memory used          24 B
overhead             0 B (0.0 %)
capacity             32 B, 8 B free
"""


def test_the_table_of_buffers():
    """Every figure of a small layout, worked out by hand."""
    buffers = [block("a", 0, 3, 16), block("b", 2, 5, 8), block("c", 4, 6, 16)]
    assert allocation_table(map_of_buffers("b", buffers, {"a": 0, "b": 16, "c": 0}, 32)) == BUFFERS


def test_gaps_are_not_in_use():
    """In its gap a buffer takes nothing; its line still tells the whole lifetime."""
    gapped = Buffer("a", 8, (Rectangle(0, 1, 0, 8), Rectangle(3, 4, 0, 8)))
    table = allocation_table(map_of_buffers("g", [gapped, block("b", 1, 3, 8)], {"a": 0, "b": 0}))
    assert "most in use at once  8 B" in table
    assert "    0  - 3  0x00000000  - 0x00000007" in table


def test_the_table_of_a_plan_ends_with_its_peak(tmp_path: Path):
    """What is in use at once is the plan's peak, in place counted once, workspace included."""
    chain = {
        "name": "chain",
        "tensors": [tensor(0, 64, "input"), tensor(1, 192), tensor(2, 192), tensor(3, 64, "output")],
        "ops": [op(0, [0], [1]), op(1, [1], [2]) | {"type": "Relu"}, op(2, [2], [3], workspace=128)],
    }
    path = graph_file(tmp_path, chain)
    made = lowtide.research.plan(path)
    table = allocation_table(layout_of(made, path))
    assert made.peak_bytes == 384
    assert "most in use at once  384 B\n" in table
    assert "in place    t2" in table
    assert "workspace   op2" in table


def test_the_table_of_a_network(tmp_path: Path):
    """On a whole network, with hundreds of ops in place, too."""
    made = lowtide.research.plan("zoo:nasnet_a_cifar")
    table = allocation_table(layout_of(made, "zoo:nasnet_a_cifar"))
    assert f"most in use at once  {made.peak_bytes:,} B" in table
    assert f"memory used          {made.arena_bytes:,} B" in table
    assert lowtide.research.plan(graph_file(tmp_path, branches())).peak_bytes
