"""One word of a plan changed, whichever it is: all that a plan says follows from the model and from what it decides, so
that with all else as it was another word is wrong.

The exceptions stand below, each with what makes it one. A key that a later version adds is none of them, and so is
forged from the day on which it is written.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from random import Random
from typing import Any, NamedTuple

from support.forgeries.bases import Base

Document = dict[str, Any]
Path = tuple[str | int, ...]


class Forgery(NamedTuple):
    """A plan that is wrong, and why."""

    family: str
    document: Document
    why: str


FREE = {
    "version": "which keys may be there",
    "lowtide": "who wrote it",
    "graph": "a title",
    "method": "how it was searched",
    "seed": "how it was searched",
    "stopped": "how it was searched",
    "seconds*": "how it was searched",
    "search*": "the search's own word",
    "certificate.states": "the search's own word",
    "certificate.direction": "which way is tried first",
    "certificate.switches*": "the search's own word",
    "*traffic_proof.states": "the search's own word",
    "target": "the rules under which it is read",
    "rules*": "the rules under which it is read",
    "overwrite_inputs": "the rules under which it is read",
    "pin_inputs": "the rules under which it is read",
    "persistent*": "the rules under which it is read",
    "double_buffered*": "the rules under which it is read",
    "fixed*": "the rules under which it is read",
    "spilling*": "the rules under which it is read",
    "dims*": "of which sizes it is a plan",
    "budget_bytes": "what was asked for",
    "reserve_bytes": "what was asked for",
    "allow*": "what was asked for",
    "model_sha256": "of which model it is a plan",
    "cost.*": "predictions, by a cost file that is not there",
    "*dtype": "a title",
    "*shape": "a title",
}
"""What no claim rests on, with what it is."""

BOUNDS = {
    "lower_bound_bytes": 1,
    "arena_lower_bound_bytes": 1,
    "traffic_lower_bound_bytes": 1,
    "region_bound.bytes": 1,
    "recomputation.lower_bound": 1,
    "recomputation.least_peak_bytes": 1,
    "fission.floor_bytes": 1,
    "fission.least_peak_bytes": 1,
    "fission.least_seconds": 1,
    "certificate.refuted_bytes": 1,
}
"""What may be said with less; `families.py` raises it."""

DECISIONS = {
    "order*": "another order may be as good",
    "offsets*": "may lie elsewhere",
    "workspace_offsets*": "may lie elsewhere",
}
"""What may be decided in another way; `families.py` decides what cannot be."""

WORDS: dict[str, tuple[str, ...]] = {
    "exactness": ("bits", "kernel", "sum"),
    "kind": ("input", "output", "activation", "constant"),
    "role": ("part", "slice", "join", "merge", "pad"),
    "status": ("ok", "over_budget", "impossible", "unproved"),
    "proved_over": ("orders", "orders_and_regions", "orders_and_joined_regions"),
    "counted": ("cost", "flops", "bytes", "nanoseconds"),
    "merge": ("concat", "sum", "max", "min"),
}  # fmt: skip


def pattern(path: Path) -> str:
    """A path with its numbers left out: ``tensors.*.size``."""
    return ".".join("*" if isinstance(k, int) or str(k).isdecimal() else str(k) for k in path)


def listed(table: dict[str, Any], name: str) -> bool:
    """Whether a table of patterns has this one."""
    return any(fnmatchcase(name, p) for p in table)


def walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value of a document, those that hold others too."""
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from walk(inner, (*path, key))


def at(document: Document, path: Path) -> Any:
    """What is at a path."""
    value: Any = document
    for key in path:
        value = value[key]
    return value


def put(document: Document, path: Path, value: Any) -> Document:
    """The document with another value at a path."""
    changed = copy.deepcopy(document)
    at(changed, path[:-1])[path[-1]] = value
    return changed


def forgeable(base: Base) -> dict[str, list[tuple[Path, Any]]]:
    """By pattern what can be forged one by one."""
    found: dict[str, list[tuple[Path, Any]]] = {}
    for path, value in walk(base.document):
        name = pattern(path)
        if path and not (listed(FREE, name) or listed(BOUNDS, name) or listed(DECISIONS, name)):
            found.setdefault(name, []).append((path, value))
    return found


def another(random: Random, path: Path, value: Any, alike: list[Any]) -> Any:
    """Another value for a leaf."""
    others = [v for v in alike if type(v) is type(value) and v != value]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = [value - 1, value + 1, value - 64, value + 64, value // 2, 2 * value + 1, 0, -value - 1, value + 2**40]
        return random.choice([v for v in (*near, *random.sample(others, min(3, len(others)))) if v != value])
    if isinstance(value, float):
        return random.choice([value + 1, value - 1, value * 0.5 - 1e-3, value * 1.5 + 1e-3, -value - 1])
    words = [w for w in WORDS.get(str(next((k for k in reversed(path) if isinstance(k, str)), "")), ()) if w != value]
    return random.choice(words or others or [f"{value}'"])


def leaf(base: Base, random: Random, paths: list[tuple[Path, Any]]) -> Forgery | None:
    """One of some values alike changed; of a list, an element less or twice; of an object, a key less."""
    path, value = random.choice(paths)
    name = pattern(path)
    if isinstance(value, list | dict):
        if not value:
            return None
        changed = copy.deepcopy(base.document)
        holder = at(changed, path)
        key = random.choice(list(holder) if isinstance(value, dict) else range(len(value)))
        twice = isinstance(value, list) and random.random() < 0.3
        inner = pattern((*path, key))
        if listed(FREE, inner) or listed(BOUNDS, inner) or listed(DECISIONS, inner) or harmless(base, inner, twice):
            return None
        if twice:
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            del holder[key]
        return Forgery(f"{'twice' if twice else 'left out'}: {inner}", changed, f"{(*path, key)} of {base.kind}")
    new = another(random, path, value, [v for _, v in paths])
    if true_still(base, name, path, value, new):
        return None
    return Forgery(f"changed: {name}", put(base.document, path, new), f"{path}: {value!r} -> {new!r}")


Still = Callable[[Base, Path, Any, Any], bool]

STILL: dict[str, tuple[str, Still]] = {}
"""By pattern when another value is as true as the one that stands there, and in words."""


def true_still(base: Base, name: str, path: Path, value: Any, new: Any) -> bool:
    """Whether a changed plan says nothing that is wrong."""
    return any(test(base, path, value, new) for p, (_, test) in STILL.items() if fnmatchcase(name, p))


SETS = {"certificate.downset.*": "a set", "fission.cuts.*": "cuts of parts already covered"}
"""What may be listed twice."""

DROPPED: dict[str, str] = {}
"""What may be left out, as nothing is said then."""


def harmless(base: Base, inner: str, twice: bool) -> bool:
    """Whether a list may have an element twice, or an object do without a key."""
    return listed(SETS if twice else DROPPED, inner)
