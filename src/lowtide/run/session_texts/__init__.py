"""The session in which onnxruntime keeps a plan, as text to copy or include: Python, C++ or JavaScript."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, cast

from lowtide.comparison import Weights
from lowtide.plan import Plan
from lowtide.rules.onnxruntime.rule import EXTEND_BYTES
from lowtide.run.blocks import block_probe, declared_block

Language = Literal["py", "cc", "js"]
ENDINGS: dict[Language, str] = {"py": ".py", "cc": ".h", "js": ".js"}
"""How the names of their files end."""
_MODULES: dict[Language, str] = {"py": "python", "cc": "cpp", "js": "javascript"}

GROWTH_BYTES = 2**20
"""By which an arena begins and grows whose tensors' order is not known."""


@dataclass(frozen=True)
class SessionSettings:
    """What a session needs to keep a plan."""

    model: str  # the model's path from the folder of the session's file
    # peak_bytes, arena_bytes: tensors and workspace at the peak, and the block that holds them.
    peak_bytes: int
    arena_bytes: int
    prepacked: bool = True  # whether kernels may keep copies of weights in a layout of their own
    mapped: bool = False  # whether the weights are in a file of their own
    block: int = 0  # for which processors the file is (`lowtide.run.blocks`); 0: any
    # Whether onnxruntime optimises the file for its processor as it opens it, in an order of its own.
    chooses_layout: bool = False

    @classmethod
    def of_plan(cls, plan: Plan, source: Path, opened: Path, file: Path) -> SessionSettings:
        """Those of a plan. `source`, `opened`, `file`: the file that the plan is of, the planned one, and that of
        the session."""
        origin, weights = plan.optimized_from, plan.weights or Weights()
        chooses = origin is not None and origin.layout_at_load
        return cls(
            os.path.relpath(opened, file.absolute().parent),
            plan.peak_bytes,
            GROWTH_BYTES if chooses else plan.runtime_arena_bytes or plan.arena_bytes or plan.peak_bytes,
            weights.prepacked,
            weights.mapped,
            declared_block(source) if origin is None else origin.block,
            chooses,
        )

    @property
    def growth_bytes(self) -> int:
        """By which the arena grows if the block does not hold all."""
        return GROWTH_BYTES if self.chooses_layout else EXTEND_BYTES


def language_of(file: str) -> Language:
    """The language of a session's file by its name's ending; Python for other ones."""
    found: list[Language] = [language for language, ending in ENDINGS.items() if file.lower().endswith(ending)]
    return found[0] if found else "py"


def session_text(settings: SessionSettings, file: str) -> str:
    """The text of a session's file, in the language that its name says."""
    module = import_module(f"{__name__}.{_MODULES[language_of(file)]}")
    return cast("Callable[[SessionSettings, str], str]", module.text)(settings, file)


def probe_lines() -> list[str]:
    """The probe of the processor in base 64, in lines of a program's length."""
    encoded = base64.b64encode(block_probe()).decode()
    return [encoded[at : at + 96] for at in range(0, len(encoded), 96)]
