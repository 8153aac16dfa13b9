"""What lowtide says of all plans of a training step, held against the plans that an oracle finds (`step_plans.py`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import lowtide
from lowtide.analyse.storage import memory_model
from lowtide.cost.file import CostFamily
from lowtide.cost.labelled import priced
from lowtide.fission_plan import PartsCut, PlanFamily
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize.joint_bound import JointProblem, joint_bound, within_bytes, within_units
from lowtide.target import resolve
from lowtide.verify.check.fission import _cost  # type: ignore[reportPrivateUsage]
from lowtide.verify.check.joint_bound import CheckedStep, least_bytes, least_seconds
from support.changed_claims import Count
from support.step_plans import Point, Speed, Speeds, StepNet, StepOp, StepOracle

TARGETS = {
    "strict": (False, True),
    "generic": (True, False),
    "generic,overwrite_inputs=true": (True, True),
}
"""Targets, whether they write in place, and over inputs, too."""

REGIONS = 12
"""Regions of a net that are run in parts."""


@dataclass(frozen=True)
class StepFailure:
    """A claim that is false: what was claimed, of which step, and the plan that shows it."""

    claim: str
    target: str
    claimed: float
    reached: Point
    seed: str
    step: str

    def to_json(self) -> dict[str, Any]:
        """As plain values, to replay it (`tests/stress_changed_graphs.py --replay`)."""
        return {
            "claim": self.claim, "target": self.target, "claimed": self.claimed, "reached": [*self.reached],
            "step": self.seed,
        }  # fmt: skip

    def __str__(self) -> str:
        return f"{json.dumps(self.to_json())}\n{self.step}"


class StepCase:
    """The drawn step of a seed under a target, with what lowtide says of it."""

    def __init__(self, seed: str, count: Count) -> None:
        random = Random(seed)
        self.seed, self.count = seed, count
        self.net, self.speeds = drawn_step(random), drawn_speeds(random)
        self.target = random.choice(list(TARGETS))
        in_place, inputs_over = TARGETS[self.target]
        self.oracle = StepOracle(self.net, self.speeds, in_place=in_place, inputs_over=inputs_over)
        self.random = random
        self.rules = resolve(self.target)
        self.families = {name: _family(speed) for name, speed in self.speeds.items()}
        self.graph = step_graph(self.net)

    def check(self, *, plans: bool) -> None:
        """Every claim; `plans`: what whole plans say, too."""
        failed = len(self.count.failures)
        front = self.oracle.front(self.random, REGIONS)
        whole = self.oracle.around((), {}).points()
        self.count.seen["steps"] += 1
        self.count.seen["steps where parts need less than any plan without"] += front[-1].peak < whole[-1].peak
        self.bounds(front)
        if plans:
            self.planned(front)
        self.count.false_nets += len(self.count.failures) > failed

    def bounds(self, front: Sequence[Point]) -> None:
        """Bounds at each op, within the time of each plan that the oracle found, and within its bytes."""
        step = priced(self.graph, self.families)
        problem = JointProblem(memory_model(step, self.rules), self.families)
        told = {name: PlanFamily(**_fields(speed)) for name, speed in self.speeds.items()}
        checked = CheckedStep(step, self.rules, told, partial(_cost, told))
        ends = max(sum(self.net.size(t) for t in side) for side in (self.net.inputs, self.net.outputs))
        for point in front:
            for v in range(len(step.ops)):
                least = joint_bound(problem, [v], within_units(problem, point.seconds))
                self._hold("steps: least peak, planner", least.value, point, least.value > point.peak)
                self.count.seen["bounds on a step's peak above its floor"] += least.value > ends
                self.count.seen["bounds on a step's peak that are reached"] += least.value == point.peak > ends
                in_parts = "[" in point.text and least.value == point.peak > ends
                self.count.seen["bounds on a step's peak that a plan in parts reaches"] += in_parts
                again = least_bytes(checked, point.seconds, [*least.cuts])
                self._hold("steps: least peak, checker", again, point, again > point.peak)
                most = point.seconds * (1 + 1e-9)
                taken = joint_bound(problem, [v], within_bytes(problem, point.peak))
                seconds = taken.value / problem.scale
                self._hold("steps: least time, planner", seconds, point, seconds > most)
                self.count.seen["bounds on a step's time above all ops once"] += taken.value > problem.once
                again = least_seconds(checked, point.peak, [*taken.cuts])
                self._hold("steps: least time, checker", again, point, again > most)

        for v in range(len(step.ops)):
            point, cuts = self.random.choice(front), self._cuts(v)
            again = least_bytes(checked, point.seconds, cuts)
            self._hold("steps: least peak, checker, other cuts", again, point, again > point.peak)
            seconds = least_seconds(checked, point.peak, cuts)
            false = seconds > point.seconds * (1 + 1e-9)
            self._hold("steps: least time, checker, other cuts", seconds, point, false)

    def _cuts(self, v: int) -> list[PartsCut]:
        """Cuts at an op at any prices, one for each number of parts."""

        def price() -> tuple[int, int]:
            return 2 ** self.random.randint(10, 40), 2**10

        rows = set(self.oracle.words(v).values())
        return [PartsCut(v, 0, 1, 1, price()), *(PartsCut(v, r, n, n, price()) for r in rows for n in range(2, r + 1))]

    def planned(self, front: Sequence[Point]) -> None:
        """Whole plans: within the bytes of a plan of the oracle's, and within its time."""
        point, uncut = self.random.choice(front), sum(op.cost or 0.0 for op in priced(self.graph, self.families).ops)
        how: dict[str, Any] = {"target": self.rules, "allow": "recompute,tile", "time": 0.5}
        with TemporaryDirectory() as folder:
            how["cost"] = str(cost_file(Path(folder) / "cost.json", self.speeds))
            within = lowtide.research.plan(self.graph, budget=point.peak, **how)
            lowtide.verify(self.graph, within)
            self._hold("steps: impossible", point.peak, point, within.status == "impossible")
            said = within.fission
            if said is not None:
                self._hold("steps: floor of a plan", said.floor_bytes, front[-1], said.floor_bytes > front[-1].peak)
                if said.least_seconds is not None:
                    false = said.least_seconds > point.seconds * (1 + 1e-9)
                    self._hold("steps: least time of a plan", said.least_seconds, point, false)
            more = max(0.0, point.seconds / uncut - 1) * (1 + 1e-9) + 1e-9 if uncut else 0.0
            plan = lowtide.research.plan(self.graph, max_overhead=f"{100 * more:.9f}%", **how)
            lowtide.verify(self.graph, plan)
            said = plan.fission
            self.count.seen["plans of steps, verified"] += 2
            if said is not None and said.least_peak_bytes is not None:
                self._hold(
                    "steps: least peak of a plan", said.least_peak_bytes, point, said.least_peak_bytes > point.peak
                )

    def _hold(self, claim: str, claimed: float, reached: Point, false: bool) -> None:
        self.count.held[claim] += 1
        if false:
            step = f"{self.net}\n{self.speeds}"
            self.count.failures.append(StepFailure(claim, self.target, claimed, reached, self.seed, step))


def step_graph(net: StepNet) -> Graph:
    """A net as lowtide reads it."""
    tensors = [
        Tensor(
            t, net.size(t), Kind.INPUT if t in net.inputs else Kind.OUTPUT if t in net.outputs else Kind.ACTIVATION,
            f"t{t}", shape, "float32",
        )
        for t, shape in enumerate(net.shapes)
    ]  # fmt: skip
    ops = [
        Op(v, op.reads, op.makes, f"op{v}", op.kind, flops=op.flops, attributes={"labels": _labels(op)})
        for v, op in enumerate(net.ops)
    ]
    return Graph("step", tuple(tensors), tuple(ops), sha256="0" * 64, dialect="labels")


def _labels(op: StepOp) -> str:
    sides = op.labels[: len(op.reads)], op.labels[len(op.reads) :]
    return " -> ".join(", ".join(" ".join(words) for words in side) for side in sides)


def _fields(speed: Speed) -> dict[str, Any]:
    return {
        "launch_seconds": speed.launch, "seconds_per_flop": speed.flop, "seconds_per_byte": speed.byte,
        "overlapped": speed.overlapped,
    }  # fmt: skip


def _family(speed: Speed) -> CostFamily:
    return CostFamily(**_fields(speed))


def cost_file(path: Path, speeds: Speeds) -> Path:
    """What ops take, written for a plan."""
    path.write_text(
        json.dumps({
            "version": 1, "lowtide": "0", "dialect": "labels", "runtime": "none", "runtime_version": "0",
            "level": "extended", "device": "none", "threads": 1, "entries": [],
            "families": {name: _fields(speed) for name, speed in speeds.items()},
        })
    )  # fmt: skip
    return path


def drawn_speeds(random: Random) -> dict[str, Speed]:
    """Launches that cost much or nothing, bytes and operations likewise; each kind of op its own."""

    def speed(*, free: float) -> Speed:
        if random.random() < free:
            return Speed(0.0, 0.0, 0.0, overlapped=False)
        rates = (
            random.choice((0.0, 1e-8, 1e-7, 1e-6)),
            random.choice((0.0, 1e-9)),
            random.choice((0.0, 1e-10, 1e-9, 1e-8)),
        )
        return Speed(*rates, overlapped=random.random() < 0.5)

    common = Speed(random.choice((1e-8, 1e-7)), 1e-9, 1e-9, overlapped=random.random() < 0.5)
    found = {"other": common if random.random() < 0.6 else speed(free=0.0)}
    found |= {name: speed(free=0.1) for name in ("matmul", "Relu", "reduce") if random.random() < 0.3}
    return found | {name: speed(free=0.6) for name in ("slice", "join", "merge")}


def drawn_step(random: Random) -> StepNet:
    """Two to six ops, some of them wide between narrow ones; forward alone, or a value that waits for its gradient."""
    batch = random.choice((2, 2, 2, 3, 4, 6, 8, 12, 16))
    widths = [random.choice((1, 2, 3, 4, batch)), random.choice((16, 32)), random.choice((1, 4, batch, 16, 64))]
    shapes: list[tuple[int, ...]] = [(batch, random.choice(widths[:1] * 3 + widths))]
    inputs, ops = [0], list[StepOp]()

    def new(*shape: int, is_input: bool = False) -> int:
        shapes.append(shape)
        if is_input:
            inputs.append(len(shapes) - 1)
        return len(shapes) - 1

    def add(kind: str, reads: Sequence[int], made: Sequence[tuple[int, ...]], labels: str) -> None:
        words = tuple(tuple(side.split()) for side in labels.replace("->", ",").split(","))
        makes = tuple(new(*shape) for shape in made)
        ops.append(StepOp(kind, tuple(reads), makes, words, random.choice((0, 10, 1000))))

    for _ in range(random.choice((2, 3, 3, 4, 4, 5, 6))):
        matrices = [t for t, shape in enumerate(shapes) if len(shape) == 2 and (t not in inputs or t == 0)]
        x = random.choice([*matrices, *matrices[-2:], *matrices[-2:]])
        r, c = shapes[x]
        alike = [t for t in range(len(shapes)) if shapes[t] == (r, c)]
        kind = random.choice(
            ("matmul", "matmul", "matmul", "Relu", "Relu", "custom", "Add", "Add", "softmax", "both", "gradient",
             "gradient", "reduce", "columns", "scale", "shift", "transpose", "stats", "all", "update")
        )  # fmt: skip
        other = [w for w in widths if (w < 16) == (c >= 16)]  # wide after narrow, narrow after wide
        width = random.choice(other if other and random.random() < 0.7 else widths)
        if kind == "matmul":
            weights = [t for t in inputs if shapes[t] == (c, width) and t]
            w = random.choice(weights) if weights and random.random() < 0.5 else new(c, width, is_input=True)
            add(kind, (x, w), [(r, width)], "n d, d f -> n f")
        elif kind in ("Relu", "custom"):
            add(kind, (x,), [(r, c)], "n d -> n d")
        elif kind == "Add":
            add(kind, (x, random.choice(alike)), [(r, c)], "n d, n d -> n d")
        elif kind == "softmax":
            add(kind, (x,), [(r, c)], "n . -> n .")
        elif kind == "both":
            add(kind, (x,), [(r, c), (r,)], "n d -> n d, n")
        elif kind == "gradient":
            y = random.choice([t for t in matrices if shapes[t][0] == r])
            add(kind, (x, y), [(c, shapes[y][1])], "n d, n f -> d f")
        elif kind == "reduce":
            add(kind, (x,), [(r,)], "n d -> n")
        elif kind == "columns":
            add(kind, (x,), [(c,)], "n d -> d")
        elif kind == "scale":
            rows = [t for t in range(len(shapes)) if shapes[t] == (r,)]
            add("Mul", (x, random.choice(rows) if rows else new(r, is_input=True)), [(r, c)], "n d, n -> n d")
        elif kind == "shift":
            rows = [t for t in range(len(shapes)) if shapes[t] == (c,)]
            add("Add", (x, random.choice(rows) if rows else new(c, is_input=True)), [(r, c)], "n d, d -> n d")
        elif kind == "transpose":
            add(kind, (x,), [(c, r)], "n d -> d n")
        elif kind == "stats":
            add(kind, (x,), [(r, c)], ". d -> . d")
        elif kind == "all":
            add(kind, (x,), [(r, c)], ". . -> . .")
        else:
            add(kind, (x, new(r, c, is_input=True)), [(r, c)], "n d, n d -> n d")
    read = {t for op in ops for t in op.reads}
    made = [t for op in ops for t in op.makes]
    outputs = [t for t in made if t not in read or random.random() < 0.1]
    return StepNet(tuple(shapes), tuple(t for t in inputs if t in read), tuple(outputs), tuple(ops))


def steps(seed: int, first: int, end: int, every: int) -> Count:
    """Hold the claims of the drawn steps number `first` to `end` of a seed; of every so many whole plans, too."""
    count = Count()
    for k in range(first, end):
        StepCase(seed_of(seed, k), count).check(plans=k % every == 0)
    return count


def seed_of(seed: int, k: int) -> str:
    """Of a drawn step."""
    return f"{seed} step {k}"
