"""What a command line asks for, as keywords of the functions that the commands call."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lowtide import api
from lowtide.cli.terminal import say
from lowtide.cli.values import dims_of
from lowtide.errors import InputError


def common(options: argparse.Namespace, model: str | Path) -> dict[str, Any]:
    """What every planning function takes."""
    announce(options, model)
    return searching(options) | {"dims": dims_of(options.dims)}


def searching(options: argparse.Namespace) -> dict[str, Any]:
    """Rules and limits of a search."""
    return {
        "target": options.target,
        **({} if options.time is None else {"time": options.time}),
        "search_memory": options.search_memory,
        "seed": options.seed,
        "overwrite_inputs": options.overwrite_inputs,
        "pin_inputs": options.pin_inputs,
    }


def announce(options: argparse.Namespace, model: str | Path) -> None:
    """Say that the user's own code is run, and which shapes a file leaves open."""
    from lowtide.api.models import open_dimensions, user_function

    own = user_function(model)
    if own is not None and not options.quiet and own[0].is_file():
        say(f"running {own[1]}() of {own[0]}: that is the user's own code")
    if not options.quiet:
        for dimension in open_dimensions(model):
            say(f"{model}: input {dimension}; the file leaves a dimension open")


def exports(options: argparse.Namespace) -> api.Exports:
    """Files of the layout."""
    return api.Exports(options.header, options.table, options.usmp)


def budget(options: argparse.Namespace) -> dict[str, Any]:
    """What there is, and what keeps its memory."""
    return {
        "budget": options.budget,
        "reserve": options.reserve,
        "require_optimal": options.require_optimal,
        "persistent": options.persistent,
        "double_buffered": options.double_buffered,
        "fixed": fixed_offsets(options.fixed),
        **memories(options),
    }


def spilling(options: argparse.Namespace) -> dict[str, Any]:
    """Memories for a plan with moves, and what a move costs."""
    moves: dict[str, str] = {}
    for name, value in options.moves:
        if moves.setdefault(name, value) != value:
            raise InputError(f"--moves gives {name} twice, {moves[name]} and {value}; give one")
    return {"memories": options.memories, "moves": moves}


def fixed_offsets(given: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Offset by tensor; the same tensor twice is an error."""
    fixed: dict[str, int] = {}
    for name, offset in given:
        if fixed.setdefault(name, offset) != offset:
            raise InputError(f"--fix puts {name} at {fixed[name]} and at {offset}; say it once")
    return fixed


def memories(options: argparse.Namespace) -> dict[str, Any]:
    """Several memories, and which tensors may lie where."""
    places: dict[str, str] = {}
    for name, there in options.places:
        if places.setdefault(name, there) != there:
            raise InputError(f"--place puts {name} in {places[name]} and in {there}; say it once")
    return {"banks": options.banks, "board": options.board, "places": places}


def method(options: argparse.Namespace) -> dict[str, Any]:
    """The method and its options, and how near its bound has to come."""
    name = api.method_name(options.method, spilling=bool(getattr(options, "memories", ())))
    settings: dict[str, str] = {}
    for of, option, value in options.settings:
        if of != name:
            raise InputError(f"--set {of}.{option} is for another method than {name}; drop it")
        settings[option] = value
    return {"method": name, "options": settings, "gap": options.gap}
