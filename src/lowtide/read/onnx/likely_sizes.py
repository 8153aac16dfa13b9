"""Likely sizes for free dimensions: what a message offers, so that the offered command works when it is copied.

A dimension's role follows from its name, or from its axis where the name says nothing (``?``, ``DynamicDimension.1``,
``unk__214``)::

    x: [?, 3, ?, ?] float      batch, -, height, width
    ids: [batch, seq] int64    batch, sequence
    state: [2, ?, 128] float   -, batch, -          layers, batch, hidden: as recurrent layers have it

Each role has a few usual sizes, the most usual first. Which of them the model takes is tried out by the reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_IMAGES = ((224, 224), (640, 640), (320, 320), (48, 320), (32, 320), (48, 192), (512, 512), (256, 256))
"""Height and width: classifiers, detectors, lines of text, segmentation."""
_LINE_WIDTH, _LINE_HEIGHT = 320, 64
_SEQUENCE = (128, 512, 256, 64, 1)
_AUDIO = (16000, 512, 576, 256, 1536)
"""Samples: a second at 16 kHz, and what detectors of voices take at a time."""
_BATCH, _CHANNELS = (1,), (3, 1, 4)
_IMAGE_CHANNELS = frozenset((1, 3, 4))
_MOST_TRIALS = 8

_BY_NAME: tuple[tuple[str, str], ...] = (
    (r"batch|(^|[^a-z])(n|b|bs)($|[^a-z])", "batch"),
    (r"height|(^|[^a-z])h($|[^a-z])", "height"),
    (r"width|(^|[^a-z])w($|[^a-z])", "width"),
    (r"channel", "channels"),
    (r"audio|sample|wave", "audio"),
    (r"seq|len|token|time|frame|step|past|cache|text|word", "sequence"),
)


@dataclass(frozen=True, slots=True)
class FreeDim:
    """A dimension of graph input `input` without a size."""

    # input, axis: where it is.
    input: str
    axis: int
    name: str  # ``""`` for one without a name
    shape: tuple[int | None, ...] = ()  # all dimensions of the input, None where free
    is_float: bool = True  # whether the input is of floating-point numbers

    @property
    def key(self) -> str:
        """What a call names it by."""
        return self.name or self.place

    @property
    def place(self) -> str:
        """``"INPUT:AXIS"``."""
        return f"{self.input}:{self.axis}"

    @property
    def role(self) -> str:
        """What it counts: ``"batch"``, ``"height"``, ``"width"``, ``"channels"``, ``"audio"`` or ``"sequence"``."""
        return _role(self)


def likely_sizes(free: Sequence[FreeDim], works: Callable[[Mapping[str, int]], bool]) -> dict[str, int]:
    """A size for each free dimension, by `FreeDim.key`: the first set of usual ones for which `works` holds. `free`: in
    the order of the file. `works`: whether the model can be read with these sizes. Asked at most eight times; not where
    there is one set."""
    first: dict[str, FreeDim] = {}
    for dim in free:
        first.setdefault(dim.key, dim)
    usual = {key: _usual(dim) for key, dim in first.items()}
    sets: list[dict[str, int]] = []
    for k in range(max(map(len, usual.values()), default=0)):
        sizes = {key: values[min(k, len(values) - 1)] for key, values in usual.items()}
        sets.append({key: _sum_of_others(key, sizes) or size for key, size in sizes.items()})
    if len(sets) == 1:
        return sets[0]
    return next((sizes for sizes in sets[:_MOST_TRIALS] if works(sizes)), sets[0])


def _usual(dim: FreeDim) -> tuple[int, ...]:
    role = dim.role
    if role in ("height", "width"):
        height_axis = 1 if _channels_last(dim) else len(dim.shape) - 2
        other = dim.shape[height_axis + (role == "height")] if len(dim.shape) > height_axis + 1 else None
        if other is None:
            return tuple(size[role == "width"] for size in _IMAGES)
        line = role == "width" and other <= _LINE_HEIGHT
        return tuple(dict.fromkeys((_LINE_WIDTH if line else other, *(size[role == "width"] for size in _IMAGES))))
    return {"batch": _BATCH, "channels": _CHANNELS, "audio": _AUDIO, "sequence": _SEQUENCE}[role]


def _role(dim: FreeDim) -> str:
    """What a dimension counts: by its name, else by its axis."""
    rank, name = len(dim.shape), dim.name.lower()
    named = next((role for pattern, role in _BY_NAME if re.search(pattern, name)), "")
    if named == "sequence" and rank == 2 and dim.axis == 1 and dim.is_float:
        return "audio"
    if named:
        return named
    if dim.axis == 0 and rank > 1:
        return "batch"
    if rank == 4 and dim.is_float:
        return dict(enumerate(("batch", "height", "width", "channels") if _channels_last(dim) else
                              ("batch", "channels", "height", "width")))[dim.axis]  # fmt: skip
    if rank == 3 and dim.axis == 1 and dim.shape[0] not in (None, 1):
        return "batch"
    return "audio" if rank == 2 and dim.is_float else "sequence"


def _channels_last(dim: FreeDim) -> bool:
    return len(dim.shape) == 4 and dim.shape[3] in _IMAGE_CHANNELS and dim.shape[1] not in _IMAGE_CHANNELS


def _sum_of_others(key: str, sizes: Mapping[str, int]) -> int:
    """What a name such as ``past_length + sequence_length`` says, where the others are free too; else 0."""
    terms = [term.strip() for term in key.split("+")]
    if len(terms) < 2 or not all(term in sizes or term.isdecimal() for term in terms):
        return 0
    return sum(sizes[term] if term in sizes else int(term) for term in terms)
