"""The cost file: how long ops take on a machine, as measured, and the estimates where nothing was.

    {"version": 1, "dialect": "onnx", "runtime": "onnxruntime", ..., "families": {...}, "entries": [...]}

A file is an input of a plan, which holds its hash: the same file gives the same plan on every machine.

What trials say of predicted times: plans that were chosen by a cost file, and then run.

A search takes the ways whose predicted times are lowest, and with them the predictions that came out too low. How much
too low is seen only where plans chosen so are run. Between trials their overheads go in a line, beyond them as the
prediction does; a plan of more predicted time never counts as faster than one of less.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from hashlib import sha256
from importlib import resources
from itertools import pairwise
from math import inf, isfinite, log
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from lowtide.errors import InputError
from lowtide.files import read_all
from lowtide.schemas import json_schema
from lowtide.version import __version__

VERSION = 1
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Level = Literal["extended", "all"]
"""Which kernels were measured: those of the nodes as they stand, or those that onnxruntime's optimiser puts in their
place on this CPU (blocked convolutions, and a change of layout around what has no such kernel)."""

FOLLOWS = -1
"""A dimension of an operand that follows from the result's: rows under a window, say. Parts at the edge have fewer."""

GLUE = ("slice", "join", "merge")  # families of the ops between parts; a file has all of them, and `OTHER`
OTHER = "other"


class CostFamily(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds of an op of a family that was not measured: launch + operations and bytes, each at its rate; of an
    `overlapped` one the longer of the two, as on a machine that moves bytes while it computes.

    `fitted`: from how many entries. `by_flops`, `by_bytes`: operations, or bytes, and the seconds that ops of that size
    took, ascending: where one is given, the rates do not count. Between two sizes times lie on a line of logarithms;
    below the smallest they are its time, above the largest they grow with the size.
    """

    launch_seconds: Seconds
    seconds_per_flop: Seconds
    seconds_per_byte: Seconds
    fitted: Annotated[int, msgspec.Meta(ge=0)] = 0
    overlapped: bool = False
    by_flops: list[tuple[Seconds, Seconds]] = []
    by_bytes: list[tuple[Seconds, Seconds]] = []

    def seconds(self, flops: float, size: float) -> float:
        """Of an op of so many operations that reads and writes so many bytes."""
        if self.by_flops:
            return _between(self.by_flops, flops)
        if self.by_bytes:
            return _between(self.by_bytes, size)
        computing, moving = flops * self.seconds_per_flop, size * self.seconds_per_byte
        return self.launch_seconds + (max(computing, moving) if self.overlapped else computing + moving)


def _between(table: Sequence[tuple[float, float]], work: float) -> float:
    """Seconds of some work by a table of work and seconds."""
    first, last = table[0], table[-1]
    if work <= first[0]:
        return first[1]
    if work >= last[0]:
        return last[1] * (work / last[0])
    at = bisect_right([row[0] for row in table], work)
    (low, fast), (high, slow) = table[at - 1], table[at]
    return fast * (slow / fast) ** (log(work / low) / log(high / low))


class CostEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An op that was measured: its signature (`lowtide.cost.signature`) and its median seconds.

    `operands` and `results` are shapes, ``None`` an operand left out, -1 a dimension that follows from the results'.
    """

    op: str
    operands: list[list[int] | None]
    results: list[list[int]]
    dtypes: list[str]
    attributes: dict[str, Any]
    seconds: Seconds


Rate = Annotated[float, msgspec.Meta(ge=1, le=1e18)]


class CostBandwidth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes per second from the device's memory to the host's, and back."""

    to_host: Rate
    from_host: Rate


class CostFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How long ops take on one machine, in one runtime, on so many threads.

    `families` hold the estimates for ops that are not among the `entries`, by the name of their family; `trials`
    what plans chosen by all that took where they were run.
    `bandwidth`: how fast tensors go to the host and back, for ``--allow offload``. A file of no dialect is for graphs
    of any: it has no entries, and the family of an op is its type, or ``"other"``.
    """

    version: int
    lowtide: str
    dialect: str
    runtime: str
    runtime_version: str
    level: Level
    device: str
    threads: Annotated[int, msgspec.Meta(ge=1)]
    families: dict[str, CostFamily]
    entries: list[CostEntry]
    trials: list[CostTrial] = msgspec.field(default_factory=list)
    bandwidth: CostBandwidth | None = None

    def to_json(self) -> bytes:
        """The file's bytes; the same figures give the same bytes."""
        return msgspec.json.format(msgspec.json.encode(self, order="deterministic"), indent=1) + b"\n"

    def save(self, path: str | Path) -> None:
        """Write the file atomically. Raises `InputError` if it cannot be written."""
        from lowtide.outputs import Outputs

        with Outputs() as outputs:
            outputs.write(path, self.to_json())


def parse_cost(data: bytes, place: str = "cost file") -> CostFile:
    """Read a cost file's bytes. Raises `InputError`: not JSON, a key missing, unknown or of the wrong type, a time that
    is negative or no number, or a family that every file has is missing."""
    try:
        file = msgspec.json.decode(data, type=CostFile)
    except msgspec.ValidationError as error:
        fix = "write it with `lowtide research measure -o`"
        if "$.bandwidth" in str(error):
            fix = "give to_host and from_host in bytes per second, from 1 to 1e18, such as 1.2e10"
        raise InputError(f"not a cost file: {error}; {fix}", place) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"not JSON: {error}", place) from None
    if file.version != VERSION:
        raise InputError(f"cost file version {file.version} is not known; this lowtide reads {VERSION}", place)
    missing = [name for name in (*GLUE, OTHER) if name not in file.families]
    if missing:
        raise InputError(f"its families lack {missing[0]!r}; measure again, or add it", place)
    if not all(isfinite(entry.seconds) for entry in file.entries):
        raise InputError("an entry's seconds are no number; measure again", place)
    if not all(isfinite(trial.predicted) and isfinite(trial.measured) for trial in file.trials):
        raise InputError("a trial's overhead is no number; measure again", place)
    for name, family in file.families.items():
        for table in (family.by_flops, family.by_bytes):
            ascending = all(a[0] < b[0] for a, b in pairwise(table))
            if not ascending or any(not (0 < x < inf and 0 < s < inf) for x, s in table):
                raise InputError(f"family {name!r} has a table whose sizes do not rise from above 0", place)
        if not isfinite(family.seconds(1.0, 1.0)):
            raise InputError(f"family {name!r} has a rate that is no number; measure again", place)
    return file


def read_cost(path: str | Path) -> tuple[CostFile, str]:
    """A cost file and its sha256. Raises `InputError` as `parse_cost`, and when it cannot be read."""
    data = read_all(path, "cost file")
    return parse_cost(data, str(path)), sha256(data).hexdigest()


def stand_in(name: str = "cpu.json") -> tuple[CostFile, str]:
    """A cost file that lowtide brings along, without entries, for who has measured nothing; and its sha256.
    ``cpu.json`` is of ONNX ops; ``rtx3090.json``, of ops of any graph, is MAGIS's machine as a roofline, not
    measured."""
    data = resources.files("lowtide.cost").joinpath("files", name).read_bytes()
    return parse_cost(data, name), sha256(data).hexdigest()


def operations(dialect: str) -> CostFile:
    """A cost file that counts operations and nothing else: a nanosecond each."""
    family = CostFamily(launch_seconds=0.0, seconds_per_flop=1e-9, seconds_per_byte=0.0)
    return CostFile(
        version=VERSION, lowtide=__version__, dialect=dialect, runtime="", runtime_version="", level="extended",
        device="operations", threads=1, families=dict.fromkeys((*GLUE, OTHER), family), entries=[],
    )  # fmt: skip


def schema() -> dict[str, Any]:
    """JSON Schema of the cost file."""
    return json_schema(CostFile)


class CostTrial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan that was run: the parts by which it takes longer than the model uncut, as predicted and as measured."""

    predicted: Annotated[float, msgspec.Meta(gt=-1)]
    measured: Annotated[float, msgspec.Meta(gt=-1)]


def expected(trials: Sequence[CostTrial], predicted: float) -> float:
    """The overhead that a plan of some predicted overhead has by the trials; without any the predicted one.

    >>> trials = [CostTrial(predicted=0.1, measured=0.2), CostTrial(predicted=0.2, measured=0.25)]
    >>> [round(expected(trials, each), 3) for each in (-0.1, 0.05, 0.16, 0.3)]
    [-0.1, 0.1, 0.23, 0.35]
    """
    line = _line(trials)
    for (x, y), (right, above) in pairwise(line):
        if x <= predicted < right:
            return y + (above - y) * (predicted - x) / (right - x)
    x, y = line[0] if predicted < line[0][0] else line[-1]
    return predicted + y - x


def predicted_within(trials: Sequence[CostTrial], bound: float) -> float:
    """The largest predicted overhead whose expected one is no more than a bound.

    >>> trials = [CostTrial(predicted=0.1, measured=0.2), CostTrial(predicted=0.2, measured=0.25)]
    >>> [round(predicted_within(trials, each), 3) for each in (-0.1, 0.1, 0.23, 0.35)]
    [-0.1, 0.05, 0.16, 0.3]
    """
    line = _line(trials)
    for (x, y), (right, above) in pairwise(line):
        if y <= bound < above:
            return x + (right - x) * (bound - y) / (above - y)
    x, y = line[0] if bound < line[0][1] else line[-1]
    return bound + x - y


def _line(trials: Sequence[CostTrial]) -> list[tuple[float, float]]:
    """(predicted, measured), neither of which ever falls, with the model uncut among them."""
    rising: dict[float, float] = {}
    most = -1.0
    for x, y in sorted([(0.0, 0.0), *((trial.predicted, trial.measured) for trial in trials)]):
        rising[x] = most = max(most, y)
    return list(rising.items())
