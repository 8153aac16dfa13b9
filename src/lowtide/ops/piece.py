"""What the ops and tensors of a part graph are of the graph that was cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lowtide.ops.access import Box
from lowtide.ops.index import Range

Role = Literal["whole", "part", "slice", "pad", "join", "merge"]


@dataclass(frozen=True, slots=True)
class Piece:
    """What a tensor of a part graph is: the rows `box` of tensor `of`, summed over `terms` of a reduced axis.

    `terms` are ranges that rise and do not touch; None where everything is summed that there is. Rows outside the
    tensor are padding: what a window that hangs over the edge sees there. With `sure`, only those rows are of the
    tensor, and rows outside them are not used: a part of a resize made them without their neighbours.
    """

    of: int
    box: Box
    terms: tuple[Range, ...] | None = None
    sure: Box | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What an op of a part graph is: op `of` itself, the rows `rows` of its `axis`, or glue between parts.

    `of` is None for glue.
    """

    role: Role
    of: int | None = None
    axis: int | None = None
    rows: Range | None = None
