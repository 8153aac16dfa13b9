"""How large COSMA's programs are, and MODeL's, with and without the overlap analysis (section III-F)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lowtide.spill.problem import SpillProblem
from lowtide_research.spill.cosma.addresses import add_addresses, add_model_addresses
from lowtide_research.spill.cosma.program import add_rows, start_program
from lowtide_research.spill.cosma.solve import estimate
from lowtide_research.spill.cosma.tensors import Space, space_of, space_without_spilling

MOST_TO_BUILD = 150_000
"""Variables of COSMA's program, which are about the rows of MODeL's. Where there are more neither is built, and only
an estimate of their variables is given."""


@dataclass(frozen=True)
class ProgramSize:
    """Of one program; `constraints` is None, and `variables` rough, where it was too large to be built."""

    network: str
    ops: int
    encoding: str
    overlap: bool
    variables: int
    constraints: int | None


def program_sizes(problem: SpillProblem, label: str) -> Iterator[ProgramSize]:
    """Equations (1) to (12) as printed, and MODeL's encoding; without rows that are not in the paper."""
    for overlap in (True, False):
        yield _size(space_of(problem, overlap=overlap), label, "cosma")
        yield _size(space_without_spilling(problem, overlap=overlap), label, "model")


def _size(space: Space, label: str, encoding: str) -> ProgramSize:
    expected = estimate(space, addresses=True)
    if expected > MOST_TO_BUILD:
        if encoding == "model":
            expected = estimate(space, addresses=False) + len(space.storages) ** 2
        return ProgramSize(label, space.n, encoding, space.overlap, expected, None)
    program = start_program(space, 1, "traffic" if encoding == "cosma" else "peak")
    add_rows(program, cuts=False)
    if encoding == "cosma":
        add_addresses(program, 2**40)
    else:
        add_model_addresses(program)
    return ProgramSize(label, space.n, encoding, space.overlap, program.variables, program.constraints)
