"""What ops cost, by signature: seconds, workspace, and the bytes that results really lie on; a file, so plans repeat.

A signature is the op as in the source, with the type, shape and strides of what it reads instead of names:
``aten.mm.default(float32[64, 128]{128, 1}, aten.t.default(float32[256, 128]{128, 1}))``.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

import msgspec

from lowtide.cost.file import CostFile
from lowtide.errors import InputError
from lowtide.files import read_all
from lowtide.names import brief
from lowtide.outputs import Outputs
from lowtide.torch.generate import expression
from lowtide.torch.program import Action, Program, refs

LAUNCH_SECONDS = 5e-6  # what starting an op takes


BYTES_PER_SECOND, OPERATIONS_PER_SECOND = 1e10, 1e11
"""The roofline of what is not measured: no machine in particular."""
HOST_BYTES_PER_SECOND = 1.2e10  # to the host and back, where the table says nothing


class OpCost(msgspec.Struct, frozen=True):
    """One op: median seconds, bytes taken while it runs in addition to its results, bytes of the storage of each
    result."""

    signature: str
    seconds: float
    workspace_bytes: int
    output_bytes: list[int]


class Costs(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """A cost table: what it was measured on (device, version of torch, threads), and ops sorted by signature.

    `bandwidth`: bytes per second to the host and back, for ``allow="recompute,offload"``; a person writes it.
    """

    device: str
    torch: str
    threads: int
    ops: list[OpCost]
    bandwidth: tuple[float, float] | None = None

    def __repr__(self) -> str:
        return brief(self, "device torch threads ops bandwidth")

    @cached_property
    def by_signature(self) -> dict[str, OpCost]:
        """Ops by signature."""
        return {op.signature: op for op in self.ops}

    def to_json(self) -> bytes:
        """The file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    @property
    def sha256(self) -> str:
        """Hex digest of the file: what a plan says of the costs that it was made with."""
        return hashlib.sha256(self.to_json()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the file. Raises `InputError` if it cannot be written."""
        with Outputs() as outputs:
            outputs.write(path, self.to_json())


def read_costs(path: str | Path) -> Costs:
    """A cost table from a file. Raises `InputError` for one that is none."""
    text = read_all(path, "cost file")
    try:
        return msgspec.json.decode(text, type=Costs)
    except msgspec.DecodeError as error:
        other = _format(text)
        if other:
            message = f"it is a cost file of {other}, for --cost; a step takes a table of lowtide.torch.measure"
            raise InputError(message, str(path)) from None
        raise InputError(f"it is no cost file: {error}; measure again", str(path)) from None


def _format(text: bytes) -> str:
    """What graphs a cost file is of that is no table of a step's ops; empty: it is none either."""
    try:
        dialect = msgspec.json.decode(text, type=CostFile).dialect
    except msgspec.DecodeError:
        return ""
    return {"onnx": "ONNX models", "": "graph JSON"}.get(dialect, f"graphs in {dialect}")


def signature(program: Program, action: Action) -> str:
    """What of an op decides its cost."""
    texts = {}
    for ref in refs(action.call):
        form = program.forms[ref.name]
        texts[ref.name] = f"{form.dtype}{list(form.shape)}{{{', '.join(map(str, form.strides))}}}"
    return expression(action.call, texts)


def roofline(program: Program, action: Action, operations: int, parts: int = 1, untiled: int = 0) -> float:
    """Seconds by bytes and operations, for an op that was not measured. `parts`: how often it runs, each time for
    some of the rows. `untiled`: bytes that each of these runs moves all the same: operands without rows, sums over
    rows."""
    names = dict.fromkeys(ref.name for ref in refs(action.call))
    read = sum(program.forms[name].extent_bytes for name in names)
    written = sum(program.forms[name].extent_bytes for name in action.outputs if name is not None)
    moved = max(0, read + written - untiled) / parts + untiled
    return parts * (LAUNCH_SECONDS + max(moved / BYTES_PER_SECOND, operations / parts / OPERATIONS_PER_SECOND))
