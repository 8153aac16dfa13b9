"""Boards: their memories for data, fastest first. Built-in ones by name (`boards.toml`), others from a TOML file.

A file of one's own::

    about = "my board"
    pointer = 32
    library = "cmsis_nn"    # what TFLM's kernels call; simd: what it is compiled for
    simd = "dsp"
    clock = 120             # MHz
    flash = "1MiB"
    bank = [
        { name = "sram", size = "200KiB" },
        { name = "psram", size = "8MiB", alignment = 32 },
    ]
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from lowtide.allocate.banks.bank import Bank
from lowtide.errors import InputError
from lowtide.files import MOST_SETTINGS_BYTES, read_all
from lowtide.names import did_you_mean, spelling
from lowtide.sizes import parse_size
from lowtide.target import MAX_ALIGNMENT
from lowtide.toml_fields import toml_text

_KEYS = ("about", "source", "pointer", "library", "simd", "clock", "flash", "bank")
_BUILDS = {"cmsis_nn": ("none", "dsp", "mve"), "esp_nn": ("dsp", "esp32s3", "esp32p4")}
"""What a library can be compiled for; ESP-NN in C is that of ``dsp``, as `Target.simd` has it."""


@dataclass(frozen=True)
class Board:
    """A board: its memories, fastest first, a line about it, and where its sizes are from.

    Attributes
    ----------
    pointer
        Bits of a pointer where it runs: 32 or 64.
    library, simd
        The library of kernels that TFLM has for it, and what that is compiled for; empty: none.
    clock, flash
        MHz of its core; bytes for code and constants. 0: not known.
    """

    name: str
    banks: tuple[Bank, ...]
    about: str = ""
    source: str = ""
    pointer: int = 32
    library: str = ""
    simd: str = ""
    clock: int = 0
    flash: int = 0


def boards() -> dict[str, Board]:
    """The built-in boards by name, in the order of the alphabet.

    >>> [b.name for b in boards()["esp32s3"].banks]
    ['sram', 'sram2', 'psram']
    """
    rows = ((name, {k: v for k, v in row.items() if k != "also"}) for name, row in _built_in().items())
    return {name: _board(name, row, "boards.toml") for name, row in rows}


def other_names() -> dict[str, str]:
    """Further names of the built-in boards, each with the board that it is.

    >>> other_names()["pico"]
    'rp2040'
    """
    return {also: name for name, row in _built_in().items() for also in row.get("also", ())}


def _built_in() -> dict[str, dict[str, Any]]:
    table = tomllib.loads((files("lowtide.allocate.banks") / "boards.toml").read_text(encoding="utf-8"))
    return dict(sorted(table.items()))


def find_board(name: str | Path) -> Board:
    """A built-in board, or one from a file whose name ends in .toml.

    Case, blanks and punctuation of a built-in board's name do not count. Raises `InputError`: no such board, an
    unreadable file, an unknown key, a memory named twice, or a size that is none.

    >>> find_board("ESP32-S3").name
    'esp32s3'
    """
    if not str(name).endswith(".toml"):
        built_in, others = boards(), other_names()
        meant = {spelling(known): others.get(known, known) for known in (*others, *built_in)}
        if spelling(str(name)) not in meant:
            hint = did_you_mean(str(name), (*built_in, *others))
            raise InputError(
                f"there is no board {str(name)!r}{hint or ';'} `lowtide research board` lists them; "
                "a file's name ends in .toml"
            )
        return built_in[meant[spelling(str(name))]]
    path = Path(name)
    try:
        table = tomllib.loads(read_all(path, "board", MOST_SETTINGS_BYTES).decode("utf-8"))
    except RecursionError:
        raise InputError("not a TOML file: nested too deeply", str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not a TOML file: {error}", str(path)) from None
    return _board(path.stem, table, str(path))


def to_toml(board: Board) -> str:
    """A board as TOML that `find_board` reads back to an equal one, but for its name.

    >>> print(to_toml(boards()["nrf52840"]).splitlines()[2])
    library = "cmsis_nn"
    """
    lines = [f"{key} = {toml_text(text)}" for key, text in (("about", board.about), ("source", board.source)) if text]
    lines += [f"pointer = {board.pointer}"] if board.pointer != 32 else []
    lines += [f"{key} = {toml_text(text)}" for key, text in (("library", board.library), ("simd", board.simd)) if text]
    lines += [f"clock = {board.clock}"] if board.clock else []
    lines += [f"flash = {_size(board.flash)}"] if board.flash else []
    lines.append("bank = [")
    for b in board.banks:
        aligned = f", alignment = {b.alignment}" if b.alignment != 1 else ""
        lines.append(f"    {{ name = {toml_text(b.name)}, size = {_size(b.capacity)}{aligned} }},")
    return "\n".join([*lines, "]", ""])


def _size(size: int) -> str:
    return f'"{size // 1024}KiB"' if size % 1024 == 0 else str(size)


def _board(name: str, table: dict[str, Any], place: str) -> Board:
    for key, value in table.items():
        if key not in _KEYS:
            raise InputError(f"unknown key {key!r}; a board has {', '.join(_KEYS)}", place)
        if key in ("about", "source") and not isinstance(value, str):
            raise InputError(f"{key} must be a text", place)
    pointer = table.get("pointer", 32)
    if type(pointer) is not int or pointer not in (32, 64):
        raise InputError(f"pointer is {pointer!r}; it has 32 bits or 64", place)
    library, clock = table.get("library", ""), table.get("clock", 0)
    simd = table.get("simd", "dsp" if library else "")
    if library not in ("", *_BUILDS) or simd not in _BUILDS.get(library, ("",)):
        known = "; ".join(f"{name} has simd {', '.join(builds)}" for name, builds in _BUILDS.items())
        raise InputError(f"library is {library!r} and simd {simd!r}; {known}", place)
    if type(clock) is not int or clock < 0:
        raise InputError(f"clock is {clock!r}; it is in MHz, a whole number", place)
    flash = parse_size(table["flash"], f"{place}: flash") if "flash" in table else 0
    rows = table.get("bank")
    if not isinstance(rows, list) or not rows:
        raise InputError('a board needs memories: bank = [{ name = "sram", size = "256KiB" }]', place)
    banks: list[Bank] = []
    for row in rows:
        if not isinstance(row, dict) or not {"name", "size"} <= set(row) <= {"name", "size", "alignment"}:
            raise InputError(f"a memory has name, size and perhaps alignment, not {str(row)[:80]}", place)
        if not isinstance(row["name"], str) or not isinstance(row["size"], str | int):
            raise InputError(f"name must be a text and size a text or a number, in {str(row)[:80]}", place)
        alignment = row.get("alignment", 1)
        if type(alignment) is not int or not 1 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
            raise InputError(f"alignment is {alignment!r}; use a power of two of at most 2^30", place)
        banks.append(Bank(row["name"], parse_size(row["size"], f"{place}: size of {row['name']}"), alignment))
    check_names(banks, place)
    return Board(
        name, tuple(banks), table.get("about", ""), table.get("source", ""), pointer, library, simd, clock, flash
    )


def check_names(banks: list[Bank], place: str = "") -> None:
    """Raise `InputError` if a memory has no name, one with ``=`` or ``,`` in it, or the name of another one."""
    names = [b.name for b in banks]
    for name in names:
        if not name.strip() or set(name) & set("=,"):
            raise InputError(f"{name!r} is no name for a memory; use one without = and ,", place)
        if names.count(name) > 1:
            raise InputError(f"two memories are named {name}; give each its own name", place)
