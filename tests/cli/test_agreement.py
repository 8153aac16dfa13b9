"""What `check` and `plan` say of the same budget never contradicts, and neither contradicts itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from onnx import GraphProto, ModelProto, helper

import lowtide
from lowtide.plan import from_json
from support.command import Captured, run
from support.onnx_builder import model, saved, value
from support.small_models import branches, graph_file, onnx_file

_LINE = re.compile(
    r"(?P<verdict>fits|does not fit|cannot fit untiled)"
    r"(?P<why>, .*?)?: required (?P<most>at most )?(?P<required>[\d,]+) B(?: of tensor arena)?, "
    r"available (?P<available>[\d,]+) B, (?P<sign>excess|to spare) (?P<excess_is>at most |at least )?"
    r"(?P<excess>[\d,]+) B "
    r"\((?P<proof>.*?)\)"
)
_VERDICTS = {0: "fits", 3: "does not fit", 4: "cannot fit untiled"}


@dataclass(frozen=True)
class Said:
    """The line of `check`, in numbers of bytes."""

    verdict: str
    required: int
    at_most: bool
    available: int
    excess: int  # or, with `to_spare`, what is left
    excess_is: str
    to_spare: bool
    proved: int

    @classmethod
    def of(cls, line: str) -> Said:
        """Every line can be read."""
        seen = _LINE.match(line)
        assert seen is not None, line
        numbers = {name: int(seen[name].replace(",", "")) for name in ("required", "available", "excess")}
        told = f"{seen['why']} {seen['proof']}"
        bounds = re.findall(r"(?:lower bound is|reserve|at least) ([\d,]+) B", told)
        bounds += re.findall(r"([\d,]+) B at the least", told)
        proved = max((int(text.replace(",", "")) for text in bounds), default=0)
        return cls(seen["verdict"], at_most=bool(seen["most"]), excess_is=(seen["excess_is"] or "").strip(),
                   to_spare=seen["sign"] == "to spare", proved=proved, **numbers)  # fmt: skip


@pytest.fixture(autouse=True)
def no_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would fit is not what is asked here, and takes nearly all of the time."""
    for module in ("check", "commands"):
        monkeypatch.setattr(f"lowtide.cli.{module}.ways_of", lambda *_: [])


def _branch(name: str, width: int) -> GraphProto:
    made = helper.make_node("Concat", ["x"] * width, [f"w{name}"], axis=1)
    summed = helper.make_node("ReduceSum", [f"w{name}"], [f"o{name}"], keepdims=1)
    return helper.make_graph([made, summed], name, [], [value(f"o{name}", (1, 1))])


def _if_model() -> ModelProto:
    """Its branches need 3 and 5 times the input."""
    chosen = helper.make_node("If", ["c"], ["y"], then_branch=_branch("a", 3), else_branch=_branch("b", 5))
    return model([chosen], [value("c", (), 9), value("x", (1, 4096))], [value("y", (1, 1))])


def _models(folder: Path) -> dict[str, tuple[Path, str]]:
    """Paths, each with a target."""
    files = {
        "strict": (graph_file(folder, branches()), "strict"),
        "generic": (graph_file(folder, branches(), "n.graph.json"), "generic"),
        "onnx": (onnx_file(folder), "generic"),
        "onnxruntime": (onnx_file(folder, "o.onnx"), "onnxruntime"),
        "if": (saved(_if_model(), folder, "if.onnx"), "onnxruntime"),
    }
    for seed in range(4):
        path = folder / f"r{seed}.graph.json"
        path.write_bytes(_random(Random(seed)))
        files[f"random {seed}"] = (path, ("strict", "hmcos", "generic", "generic")[seed])
    return files


def _random(rng: Random) -> bytes:
    """A random graph as a file."""
    import msgspec

    from support.random_graphs import random_graph

    graph = random_graph(rng, 12, plain=True)
    tensors = [{"id": t.id, "size": t.size, "kind": str(t.kind), "name": f"t{t.id}"} for t in graph.tensors]
    ops = [{"id": op.id, "inputs": list(op.inputs), "outputs": list(op.outputs), "type": op.type} for op in graph.ops]
    return msgspec.json.encode({"name": "r", "tensors": tensors, "ops": ops})


NAMES = ("strict", "generic", "onnx", "onnxruntime", "if", "random 0", "random 1", "random 2", "random 3")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_check_and_plan_say_the_same_around_what_is_required(name: str, tmp_path: Path, capsys: Captured) -> None:
    """With and without a reserve, a byte more and less, far above and far below."""
    path, target = _models(tmp_path)[name]
    _agree(capsys, path, target, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["any", "reference"])
def test_they_do_under_tflm_too(kernels: str, tmp_path: Path, capsys: Captured) -> None:
    """Where something is needed beside the arena."""
    builder = pytest.importorskip("support.tflite_builder")
    path = tmp_path / "m.tflite"
    path.write_bytes(builder.branches().bytes())
    _agree(capsys, path, f"tflm,kernels={kernels}", tmp_path, _nearest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "target"),
    [("swiftnet_cell_a", "strict"), ("swiftnet_cell_a", "generic"), ("nasnet_a_cifar", "generic")],
)
def test_they_do_for_networks(network: str, target: str, tmp_path: Path, capsys: Captured) -> None:
    """As users met it first, on NASNet: far below, a byte less, and above; the rest is the small models'."""
    _agree(capsys, f"zoo:{network}", target, tmp_path, _nearest, reserves=(3,))


def _nearest(needed: int) -> tuple[int, ...]:
    """Far below, a byte less, and above, for what takes long to plan."""
    return needed // 2, needed - 1, needed + 1


def _around(needed: int) -> tuple[int, ...]:
    """Budgets in bytes around what is required."""
    return (1, needed // 2, needed - 16, needed - 1, needed, needed + 1, needed + needed // 8, 4 * needed)


def _agree(
    capsys: Captured,
    path: Path | str,
    target: str,
    folder: Path,
    around: Callable[[int], Sequence[int]] = _around,
    reserves: tuple[int, ...] = (0, 3),
) -> None:
    best = lowtide.research.plan(path, target=target)
    for budget in sorted(set(around(best.required_bytes))):
        for reserve in reserves:
            near = abs(budget - best.required_bytes) <= 16
            if budget > reserve and (near or len(reserves) == 1 or not reserve):
                call = [path, "--target", target, "--budget", budget, "--reserve", reserve]
                _agree_on(capsys, call, best.required_bytes, folder / "plan.json")


def _agree_on(capsys: Captured, call: list[object], least: int, file: Path) -> None:
    status, out, _ = run(capsys, "check", *call)
    said, budget, reserve = Said.of(out), int(str(call[4])), int(str(call[6]))
    planned, text, _ = run(capsys, "research", "plan", *call, "--plan", file)
    plan = from_json(file.read_bytes())
    assert status == planned == plan.exit_status
    assert said.verdict == _VERDICTS[status]
    assert said.available == budget
    assert (said.required <= budget) == (status == 0)
    assert said.proved <= plan.least_required_bytes + reserve <= said.required
    assert status == 0 or not said.at_most
    if not said.at_most:
        assert said.required == plan.required_bytes <= least + reserve
    assert said.to_spare == (status == 0)
    if status == 0:
        assert (said.excess, said.excess_is) == (budget - said.required, "at least" if said.at_most else "")
    elif said.excess_is == "at least":
        assert 0 < said.excess <= plan.required_bytes - budget
    else:
        assert said.excess == said.required - budget > 0
    if status == 4:
        assert budget < said.proved <= plan.required_bytes
    _plan_agrees(text, status, plan.required_bytes - budget)


def _plan_agrees(text: str, status: int, over: int) -> None:
    """The summary of `plan` says as much."""
    verdict = next(line for line in text.splitlines() if line.startswith("budget"))
    assert ("over budget" in verdict) == (status in (3, 4))
    assert ("to spare" in verdict) == (status == 0)
    assert ("impossible without tiling" in verdict) == (status == 4)
    assert f"{abs(over):,} B" in verdict
