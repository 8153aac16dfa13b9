"""Which memories there are, and which of them something may lie in: as a user says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lowtide.allocate.banks.bank import Bank, Demand
from lowtide.allocate.banks.boards import check_names, find_board
from lowtide.allocate.banks.memories import BankPlacement, place_in_banks
from lowtide.allocate.buffers import Problem
from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide.sizes import parse_size
from lowtide.stop import Limits

Banks = Sequence[str] | Mapping[str, str | int]
"""Memories, fastest first: ``["sram=256KiB", "psram=8MiB"]`` or ``{"sram": "256KiB", "psram": "8MiB"}``."""

Places = Mapping[str, str | Sequence[str]]
"""Name of a tensor or a buffer to the memories that it may lie in, the one it prefers first."""

NO_PLACES: Places = {}


def find_banks(banks: Banks | None, board: str | Path | None) -> tuple[Bank, ...]:
    """The memories that a call names; none if it names none. `banks`: ``NAME=SIZE`` or ``NAME=SIZE@ALIGNMENT`` each,
    or a mapping. With a board those of its memories that are named get this size, and others come after them.
    `board`: a built-in board or a TOML file. Raises `InputError`: no such board, or a memory without a name or size,
    or named twice."""
    given = _given(banks)
    check_names([bank for bank, _ in given])
    if board is None:
        return tuple([bank for bank, _ in given])
    known = {bank.name: bank for bank in find_board(board).banks}
    for bank, asked in given:
        own = known[bank.name].alignment if bank.name in known else 1
        if asked and bank.alignment < own:
            message = f"memory {bank.name} of the board is aligned to {own}, and @{bank.alignment} asks for less"
            raise InputError(f"{message}; leave it out, or describe a board of your own")
        known[bank.name] = replace(bank, alignment=max(own, bank.alignment))
    return tuple(known.values())


def check_alignments(banks: Banks | None, alignment: int) -> None:
    """Raise `InputError` if a memory is asked to have an alignment below the one that all offsets have."""
    for bank, asked in _given(banks):
        if asked and bank.alignment < alignment:
            raise InputError(
                f"memory {bank.name} is to be aligned to {bank.alignment}, and the target aligns everything to "
                f"{alignment}; leave @{bank.alignment} out, or change the target, as generic,alignment={bank.alignment}"
            )


def _given(banks: Banks | None) -> list[tuple[Bank, bool]]:
    """The memories that a call names, and of each whether it says an alignment."""
    given: list[tuple[Bank, bool]] = []
    entries = [f"{k}={v}" for k, v in banks.items()] if isinstance(banks, Mapping) else (banks or ())
    for entry in entries:
        name, equals, rest = entry.partition("=")
        size, at, unit = rest.partition("@")
        if not (equals and name.strip() and size.strip()):
            raise InputError(f"memory {entry[:80]!r} is not NAME=SIZE, as in sram=256KiB")
        alignment = parse_size(unit, f"alignment of {name}") if at else 1
        if alignment & (alignment - 1) or not 1 <= alignment <= 2**30:
            raise InputError(f"alignment of {name} is {alignment}; use a power of two of at most 2^30")
        given.append((Bank(name.strip(), parse_size(size, f"size of {name}"), alignment), bool(at)))
    return given


def allowed_banks(names: str | Sequence[str], banks: Sequence[Bank], of: str) -> tuple[int, ...]:
    """Indices of the memories that something may lie in, in its own order. Raises `InputError`: a memory that is not
    there, or is named twice."""
    index = {b.name: k for k, b in enumerate(banks)}
    wanted = names.split(",") if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in index:
            hint = did_you_mean(name, index)
            raise InputError(f"{of} is to be in {name!r}; the memories are {', '.join(index)}{hint}")
    if not wanted or len(set(wanted)) != len(wanted):
        raise InputError(f"{of} is to be in {', '.join(wanted) or 'nothing'}; name each memory once")
    return tuple(index[name] for name in wanted)


def place_buffers(
    problem: Problem, banks: Sequence[Bank], places: Mapping[str, str | Sequence[str]], limits: Limits
) -> BankPlacement:
    """Plain buffers in several memories. A fixed offset is one of the first memory unless `places` says otherwise.
    Raises `InputError`: `places` names a buffer or a memory that is not there."""
    names = {b.name for b in problem.buffers}
    for name in places:
        if name not in names:
            raise InputError(f"{name!r} is to be placed, and is no buffer{did_you_mean(name, names)}")
    everywhere = tuple(range(len(banks)))
    demands = []
    for b in problem.buffers:
        allowed = everywhere if b.offset is None else (0,)
        if b.name in places:
            allowed = allowed_banks(places[b.name], banks, b.name)
        if b.offset is not None and len(allowed) > 1:
            raise InputError(f"{b.name} has a fixed offset; name the one memory that it is an offset of")
        demands.append(Demand(allowed, b.size))
    return place_in_banks(problem, banks, demands, limits)
