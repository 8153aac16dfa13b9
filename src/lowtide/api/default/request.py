"""What a person asks of `lowtide plan`, and what is searched for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lowtide.api.job import Job, check_time
from lowtide.api.models import load, user_function
from lowtide.api.moves.all_transformations import MOST_OVERHEAD, with_all_transformations
from lowtide.api.objects import Model, is_program
from lowtide.api.planning import job_of, plan_job
from lowtide.errors import FreeDimensionError, InputError
from lowtide.graph import Graph, Kind
from lowtide.names import did_you_mean
from lowtide.plan import Plan
from lowtide.rewrites import TRANSFORMATIONS
from lowtide.sizes import Dims, Size, parse_overhead, parse_size
from lowtide.stop import Progress
from lowtide.target import Target, resolve, with_fields

RUNTIME_FORMATS = {"onnxruntime": ".onnx", "tflm": ".tflite", "tflite": ".tflite", "torch": ".pt2"}
"""The format of the files that a runtime opens."""
PORTABLE = "onnxruntime,portable"
"""The target of files that run on any processor."""

SECONDS = 10.0  # of work of each search, where the call names none

Tell = Callable[[Progress | str | Plan], None]
"""Called with how far a search is, with what is being done, or with the best plan so far and its comparison."""


def NO_PROGRESS(_: Progress | str | Plan) -> None:  # a constant that can be called
    """Say nothing."""


@dataclass(frozen=True)
class Request:
    """What a call of `plan` asks for."""

    model: Model
    budget_bytes: int | None = None  # None: the least memory that `slower` allows
    slower: float | None = MOST_OVERHEAD  # part of today's time that a run may take more; None, with a budget: any
    target: str | Target | None = None  # None: that of the model's format
    dims: Dims = field(default_factory=dict[str, int])
    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    assumed: bool = False  # whether lowtide chose sizes in `dims`
    seconds: float = SECONDS
    timed: bool = False  # whether the call names the seconds
    seed: int = 0
    # Whether the model is to be written: then only changes are tried that a file of its format can hold.
    to_write: bool = False
    max_tensor_bytes: int = 0  # that a single tensor may have; 0: any number
    portable: bool = False  # for onnxruntime: whether the written file is to run on any processor
    # The smallest of several sizes for which one file is written; `dims` has the largest, for which it is planned.
    smallest: Mapping[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def of(
        cls,
        model: Model,
        budget: Size | None,
        slower: str | float | None,
        target: str | Target | None,
        dims: Dims,
        only: Sequence[str] | None,
        without: Sequence[str],
        *,
        seconds: float | None = None,
        seed: int = 0,
        max_tensor: Size | None = None,
    ) -> Request:
        """A call's arguments. Raises `InputError` if one is wrong."""
        for name in (*(only or ()), *without):
            if name not in TRANSFORMATIONS:
                hint = did_you_mean(name, TRANSFORMATIONS)
                raise InputError(f"there is no transformation {name!r}; there are {', '.join(TRANSFORMATIONS)}{hint}")
        budget_bytes = None if budget is None else parse_size(budget, "budget")
        if budget_bytes is not None and str(budget).strip().isdecimal():
            opened = isinstance(model, str | Path) and str(model).lower().endswith(".onnx")
            measured = opened and target in (None, "auto", "onnxruntime", PORTABLE)
            _check_unit(budget_bytes, 1024**2 if measured else 1024 if isinstance(budget, str) else 0)
        unsaid = None if budget_bytes is not None else MOST_OVERHEAD
        allowed = unsaid if slower is None else parse_overhead(slower, "slower")
        names = None if only is None else tuple(only)
        portable = target == PORTABLE
        target = "onnxruntime" if portable else target
        _check_target(model, target)
        request = cls(
            model, budget_bytes, allowed, target, dict(dims), names, tuple(without), False,
            SECONDS if seconds is None else seconds, seconds is not None, seed, portable=portable,
            max_tensor_bytes=0 if max_tensor is None else parse_size(max_tensor, "max-tensor"),
        )  # fmt: skip
        check_time(request.seconds)
        return request

    @property
    def path(self) -> str:
        """The model's path or name; empty for an object."""
        if isinstance(self.model, Graph):
            return self.model.source
        return "" if is_program(self.model) else str(self.model)

    @property
    def name(self) -> str:
        """What a person calls the model."""
        if self.path:
            return Path(self.path).name
        return self.model.name if isinstance(self.model, Graph) else "program"

    @property
    def is_file(self) -> bool:
        """Whether the model is a file, which can be written back."""
        return bool(self.path) and not self.path.startswith("zoo:") and user_function(self.path) is None

    @property
    def for_onnxruntime(self) -> bool:
        """Whether onnxruntime runs the model."""
        return self.path.lower().endswith(".onnx") and self.target in (None, "auto", "onnxruntime")

    @property
    def runs_in_onnxruntime(self) -> bool:
        """Whether onnxruntime can be asked what the model takes: it is installed, and the weights are there."""
        if not self.is_file or isinstance(self.model, Graph) or not self.for_onnxruntime:
            return False
        if find_spec("onnxruntime") is None:
            return False
        from lowtide.run.random_weights import missing_weights

        return not missing_weights(Path(self.path))

    @property
    def may_be_slow(self) -> bool:
        """Whether more time is allowed than by default."""
        return self.slower is None or self.slower > MOST_OVERHEAD

    @property
    def target_name(self) -> str | Target:
        """The target: that of the model's format unless the call names another; with the call's limit of tensors."""
        onnx = "onnxruntime" if self.path.lower().endswith(".onnx") else "auto"
        target = onnx if self.target is None else resolve(self.target, source=self.path).on_device(32)  # for TFLM
        return self.limited(target)

    def limited(self, target: str | Target) -> str | Target:
        """A target with the call's limit of single tensors."""
        if not self.max_tensor_bytes:
            return target
        return with_fields(resolve(target, source=self.path), [f"max_tensor={self.max_tensor_bytes}"])

    def with_sizes(self) -> Request:
        """The request with a size for each free dimension: usual ones where the call says none."""
        if not self.is_file or isinstance(self.model, Graph):
            return self
        try:
            load(self.model, self.dims)
        except FreeDimensionError as error:
            return replace(self, dims={**self.dims, **error.sizes}, assumed=True)
        return self

    def job(self, model: Model, dims: Dims, *, changes: bool, **settings: Any) -> Job:
        """The search for a plan of a model: the user's, or the file that a runtime makes of it. `changes`: whether
        the graph may be changed; else only order and places are chosen. `settings`: further arguments of
        `lowtide.research.plan`."""
        settings = {"seed": self.seed, "time": self.seconds} | settings
        job = job_of(model, dims=dims, allow="all" if changes else (), **settings)
        job = replace(job, search=replace(job.search, timed=self.timed))
        if not changes:
            return job
        job = with_all_transformations(job)
        names = tuple(t for t in job.allow if (self.only is None or t in self.only) and t not in self.without)
        if self.runs_in_onnxruntime:  # its plans have a bound on operators, which recomputation lacks
            names = tuple(name for name in names if name != "recompute")
        if self.max_tensor_bytes and "tile" not in names:  # recomputation alone changes no tensor's size
            names = tuple(name for name in names if name in ("concat", "alias"))
        if self.smallest or (self.to_write and load(job.model, job.dims).dialect not in ("onnx", "tflite")):
            names = ()  # tiles are of fixed sizes
        return replace(job, allow=names, costs=job.costs if names else None)

    def check_only(self) -> None:
        """Raise `InputError` if `only` names nothing that is tried for the model where it runs."""
        if not self.only or self._tried():
            return
        where = "in onnxruntime" if self.runs_in_onnxruntime else f"under target {resolve(self.target_name).name}"
        tried = replace(self, only=None)._tried()
        raise InputError(
            f"{', '.join(self.only)} alone changes nothing for this model {where}; "
            + (f"there {', '.join(tried)} are tried" if tried else "there only order and places are chosen"),
            self.path,
        )

    def _tried(self) -> list[str]:
        """The transformations that are tried for the model."""
        names = {*self.job(self.model, self.dims, changes=True, target=self.target_name).allow}
        if "tile" not in names:
            names -= {"recompute-halos", "nest-tiles", "merge"}  # which say how tiles are made
        return [name for name in TRANSFORMATIONS if name in names]

    def solve(self, job: Job, tell: Tell) -> Plan:
        """The plan of a job."""
        return plan_job(job, report=tell)

    def shapes(self, graph: Graph) -> dict[str, str]:
        """Shapes of the graph inputs, where the call or lowtide chose sizes."""
        if not self.dims:
            return {}
        inputs = [t for t in graph.tensors if t.kind is Kind.INPUT and t.shape is not None]
        return {t.name: "x".join(map(str, t.shape or ())) for t in inputs}


def finished(plan: Plan) -> Plan:
    """A plan whose search was not interrupted. Raises `KeyboardInterrupt` if it was."""
    if plan.stopped == "interrupt":
        raise KeyboardInterrupt
    return plan


def _check_unit(budget_bytes: int, least: int) -> None:
    """Raise `InputError` if a number without a unit is below the bytes that a budget has at the least."""
    if budget_bytes < least:
        why = ", which no process fits into; give a unit, as in 20MB"
        why = why if least > 1024 else f"; give a unit, as in {budget_bytes}KiB, or {budget_bytes}B if you mean it"
        raise InputError(f"budget is {budget_bytes} bytes{why}")


def _check_target(model: Model, target: str | Target | None) -> None:
    """Raise `InputError` if a file is to run in a runtime that does not open its format."""
    name = target.partition(",")[0] if isinstance(target, str) else ""
    ending = Path(model).suffix.lower() if isinstance(model, str | Path) else ""
    opens = RUNTIME_FORMATS.get(name)
    if opens is not None and ending in RUNTIME_FORMATS.values() and ending != opens:
        own = ", ".join(dict.fromkeys(name for name, format_ in RUNTIME_FORMATS.items() if format_ == ending))
        raise InputError(f"{name} opens {opens} files; leave out --for, or name one of {own}, generic", str(model))
