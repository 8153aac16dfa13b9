"""An arena that is enough whichever kernels run: the largest of the libraries', and whose it is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import lowtide
from lowtide.errors import VerificationError
from lowtide.rules.tflm.libraries import LIBRARIES
from lowtide.run.tflite import ask
from lowtide_research.bench.tflite_kinds import kinds
from lowtide_research.bench.tflite_net import Net
from support.tflite_builder import branches, residual
from support.tflite_nets import pyramid, wide_net


def nets(every: int) -> Iterator[tuple[str, bytes]]:
    """The tests' own nets, and of the models of one operator each every n-th."""
    for net in (residual, branches, pyramid, wide_net):
        yield net.__name__, net().bytes()
    for i, ((kind, variant), make) in enumerate(kinds().items()):
        if i % every == 0:
            net = Net(i)
            given, out = make(random.Random(i), net)
            net.ends(given, [out])
            yield f"{kind} {variant}", net.bytes()


def check_enough(path: Path, out: Path, pointer: int) -> str:
    """The default's figure is enough for the planned file under each library, and 16 bytes fewer are not for the one
    that is said to decide. Its name; empty where a kernel is not known."""
    target = f"tflm,pointer={pointer}"
    plan = lowtide.research.plan(path, target=target, time=5)
    parts = plan.runtime_parts
    assert parts is not None
    plan.apply(path, out)
    lowtide.verify(path, plan)
    needed = {}
    for kernels in LIBRARIES:
        each = lowtide.check(out, plan.required_bytes, as_is=True, target=f"{target},kernels={kernels}")
        assert (kernels, each.status) == (kernels, "ok")
        needed[kernels] = each.required_bytes
    assert parts.arenas == needed
    assert plan.required_bytes == max(needed.values()) == needed[parts.decided_by]
    short = lowtide.check(out, plan.required_bytes - 16, as_is=True, target=f"{target},kernels={parts.decided_by}")
    assert short.status in ("over_budget", "impossible")
    default = lowtide.check(out, plan.required_bytes, as_is=True, target=target)
    assert (default.status, default.required_bytes) == ("ok", plan.required_bytes)
    return "" if parts.unknown else parts.decided_by


@pytest.mark.slow
@pytest.mark.parametrize(("pointer", "every"), [(32, 24), (64, 48)])
def test_enough_whichever_kernels_run(tmp_path: Path, pointer: int, every: int) -> None:
    """On the tests' nets and models of one operator each (of all kinds: research's test_tflm_enough.py); each library
    decides some."""
    deciding = set()
    for name, data in nets(every):
        path = tmp_path / "m.tflite"
        path.write_bytes(data)
        deciding.add(check_enough(path, tmp_path / "o.tflite", pointer))
        assert name
    assert {"reference", "cmsis_nn"} <= deciding


def test_an_arena_that_is_not_the_largest_is_refused(tmp_path: Path) -> None:
    """The checker knows which libraries there are, and that the largest decides."""
    path = tmp_path / "m.tflite"
    path.write_bytes(residual().bytes())
    plan = lowtide.research.plan(path, target="tflm,pointer=32")
    parts = plan.runtime_parts
    assert parts is not None
    assert len(set(parts.arenas.values())) > 1
    lowtide.verify(path, plan)
    least = min(parts.arenas, key=lambda kernels: parts.arenas[kernels])
    for wrong in (
        {"decided_by": least},
        {"arenas": {least: parts.arenas[least]}},
        {"arenas": {**parts.arenas, least: plan.required_bytes + 16}},
        {"arenas": {}},
        {"decided_by": ""},
    ):
        forged = msgspec.structs.replace(plan, runtime_parts=msgspec.structs.replace(parts, **wrong))
        with pytest.raises(VerificationError, match="runtime_arena"):
            lowtide.verify(path, forged)


@pytest.mark.slow
def test_with_the_figure_the_package_starts_and_with_16_bytes_fewer_it_refuses(tmp_path: Path) -> None:
    """The pip package, whose kernels are the reference ones: by bisection in steps of 16, of the plan that names them;
    the default's is enough."""
    pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
    path, out = tmp_path / "m.tflite", tmp_path / "o.tflite"
    for name, data in nets(48):
        path.write_bytes(data)
        for target in ("tflm,kernels=reference", "tflm"):
            plan = lowtide.research.plan(path, target=target)
            plan.apply(path, out)
            answer = ask("tflm", [str(path), str(out)], 0, 1, [(), ()])
            assert "error" not in answer, (name, answer)
            assert all(o["equal"] for o in answer["outputs"]), name
            least = answer["measured"][1]["smallest_arena_bytes"]
            assert least <= plan.required_bytes, (name, target)
            assert plan.runtime_parts is not None
            if target != "tflm" and plan.runtime_parts.exact:
                assert least == plan.required_bytes, name
