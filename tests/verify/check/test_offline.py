"""The offline plan in a .tflite file: what TFLM would not notice is found, with the reason."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from lowtide import api
from lowtide.errors import InputError, VerificationError
from lowtide.plan import read_plan
from lowtide.read.tflite.reader import read_tflite
from lowtide.write.tflite import planned_bytes
from support.tflite_builder import Net, branches, compiled_by_vela, residual

REFERENCE = "tflm,kernels=reference"


def file(folder: Path, data: bytes, name: str = "m.tflite") -> Path:
    """The bytes as a file."""
    path = folder / name
    path.write_bytes(data)
    return path


def test_a_plan_of_our_own_holds(tmp_path: Path):
    """In place, behind, reshapes: all with their reasons."""
    path = file(tmp_path, residual().bytes())
    out = tmp_path / "out.tflite"
    api.plan(path, target=REFERENCE).apply(path, out)
    report = api.verify(out)
    assert [c.name for c in report.checks] == ["offline plan", "alignment", "overlap", "kernels"]
    parts, own = api.plan(path, target=REFERENCE).runtime_parts, api.plan(out, target=REFERENCE).runtime_parts
    assert parts is not None
    assert own is not None
    assert own.own_planned == parts.planned < (parts.own_planned or 0)
    found = api.check(out, "1MiB", as_is=True, target=REFERENCE).parts
    assert found is not None
    assert (found.planned, found.persistent, found.exact) == (parts.planned, parts.persistent, parts.exact)


@pytest.mark.slow
def test_a_stale_plan_is_found(tmp_path: Path):
    """The operators were put into another order by somebody who left the plan where it was."""
    path = file(tmp_path, branches().bytes())
    out = tmp_path / "out.tflite"
    made = api.plan(path)
    made.apply(path, out)
    api.verify(out)
    graph = read_tflite(out)
    draw = random.Random(0)
    reasons = []
    for _ in range(20):
        order: list[int] = []
        left = list(graph.own_order)
        while left:
            ready = [o for o in left if not any(graph.ops[p].id in left for p in graph.predecessors[graph.index_of[o]])]
            order.append(draw.choice(ready))
            left.remove(order[-1])
        stale = planned_bytes(out.read_bytes(), order, None, "m")
        kept = {t: at for t, at in _offsets(out).items() if at >= 0}
        stale = planned_bytes(stale, range(len(order)), kept, "m")
        try:
            api.verify(file(tmp_path, stale, "stale.tflite"))
        except VerificationError as error:
            reasons.append((error.failure, "overlaps" in str(error)))
    assert len(reasons) > 10
    assert set(reasons) == {("overlap", True)}
    kept = dict.fromkeys(_offsets(out), 0)
    path = file(tmp_path, planned_bytes(out.read_bytes(), graph.own_order, kept, "m"), "all-at-0.tflite")
    with pytest.raises(VerificationError, match="overlaps"):
        api.check(path, "1MiB", as_is=True)


def _offsets(path: Path) -> dict[int, int]:
    from lowtide.read.tflite.model import parse_file

    return dict(enumerate(parse_file(path.read_bytes(), "m").offline_plan() or []))


@pytest.mark.parametrize(
    ("places", "failure", "message"),
    [
        ({0: 0, 3: 0}, "overlap", "still reads"),
        ({0: 0, 3: 768, 6: 1024}, "overlap", "is live"),
        ({0: 8}, "alignment", "no multiple of 16"),
        ({0: -5}, "offline_plan", "use -1"),
    ],
    ids=["too near", "alive", "unaligned", "negative"],
)
def test_corrupt_plans(tmp_path: Path, places: dict[int, int], failure: str, message: str):
    """Each with its name and its reason; tensor 3 is made from 0, and 6 from 3, which lives on."""
    path = file(tmp_path, planned_bytes(residual().bytes(), range(8), places, "m"))
    with pytest.raises(VerificationError, match=message) as error:
        api.verify(path, target=REFERENCE)
    assert error.value.failure == failure


def test_a_plan_for_another_number_of_tensors(tmp_path: Path):
    """TFLM refuses the file."""
    net = residual()
    net.metadata("OfflineMemoryAllocation", b"\0\0\0\0\1\0\0\0\2\0\0\0" + b"\0" * 8)
    with pytest.raises(InputError, match="for 2 tensors"):
        api.verify(file(tmp_path, net.bytes()))


def test_files_without_a_plan(tmp_path: Path):
    """There is nothing to check."""
    with pytest.raises(InputError, match="holds no offline plan"):
        api.verify(file(tmp_path, residual().bytes()))


def test_operators_with_state_in_another_order_are_found(tmp_path: Path):
    """A plan that swaps two operators that share a variable is refused by `verify`."""
    net = Net()
    x, v = net.tensor((4,), "float32"), net.tensor((4,), "float32", variable=True)
    a, b = net.tensor((4,), "float32"), net.tensor((4,), "float32")
    net.op("SVDF", [x, v], [a])
    net.op("SVDF", [x, v], [b])
    net.ends([x], [a, b])
    path = file(tmp_path, net.bytes())
    plan = tmp_path / "p.json"
    api.plan(path, target="strict").save(plan)
    changed = json.loads(plan.read_text())
    changed["order"].reverse()
    plan.write_text(json.dumps(changed))
    with pytest.raises(VerificationError, match="must run after") as error:
        api.verify(path, read_plan(plan))
    assert error.value.failure == "order"


def test_files_of_vela_are_checked_and_left_alone(tmp_path: Path):
    """Its operators hold places in the arena: the plan is checked, the arena told, and nothing is written anew."""
    net = compiled_by_vela()
    path = file(tmp_path, net.bytes())
    assert api.verify(path).checks
    found = api.check(path, "4KiB", as_is=True)
    assert (found.status, found.parts and found.parts.planned) == ("ok", 1024)
    with pytest.raises(InputError, match="Vela"):
        api.plan(path)
    with pytest.raises(InputError, match="Vela"):
        planned_bytes(net.bytes(), [0], {2: 0}, "m")
