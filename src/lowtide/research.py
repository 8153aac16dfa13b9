"""Planning under rules and methods of your choice, and what belongs to it: curves, comparisons, lists, cost files.

`lowtide` itself has what most users need. `plan` here takes every option there is, each for one transformation or one
rule. Names are imported when they are first used.

>>> import lowtide
>>> made = lowtide.research.plan("zoo:nasnet_a_cifar", target="strict", method="own")
>>> made.peak_bytes, made.optimal
(2359296, False)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.api import (
        allocate,
        board,
        board_fits,
        boards,
        compare,
        curve,
        front,
        measure,
        plan,
        plan_sizes,
        probe,
        prove,
        schema,
        share,
        sweep,
        target,
        targets,
        ways_to_fit,
    )

__all__ = [
    "allocate",
    "board",
    "board_fits",
    "boards",
    "compare",
    "curve",
    "front",
    "measure",
    "plan",
    "plan_sizes",
    "probe",
    "prove",
    "schema",
    "share",
    "sweep",
    "target",
    "targets",
    "ways_to_fit",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lowtide import api

    globals().update({public: getattr(api, public) for public in __all__})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
