"""The session in which onnxruntime keeps a plan, as text to copy or include: Python, C++ or JavaScript."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from lowtide.comparison import Weights
from lowtide.plan import Plan
from lowtide.rules.onnxruntime.rule import EXTEND_BYTES, thread_bytes
from lowtide.run.blocks import PORTABLE, block_probe, declared_block

Language = Literal["py", "cc", "js"]
ENDINGS: dict[Language, str] = {"py": ".py", "cc": ".h", "js": ".js"}
"""How the names of their files end."""
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
    thread_bytes: int = 0  # what the block is larger by for each thread but the first

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
            thread_bytes(op.type for op in plan.ops),
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
    return _TEXTS[language_of(file)](settings, file)


def _filled(template: str, words: Mapping[str, object]) -> str:
    """A file of this folder with its words, which stand in it as ``@word@``."""
    text = files(__name__).joinpath(template).read_text(encoding="utf-8")
    return re.sub(rf"@({'|'.join(words)})@", lambda found: str(words[found[1]]), text)


def _block(settings: SessionSettings, template: str, name: str, indent: str, between: str) -> str:
    """What sees that the processor is one that the file is for; empty if all are. `between`: between lines of text."""
    if not settings.block:
        return ""
    probe = between.join(f'{indent}"{line}"' for line in probe_lines())
    return _filled(template, {"block": settings.block, "probe": probe, "name": name, "portable": PORTABLE})


def _python(settings: SessionSettings, file: str) -> str:
    name, stem, chooses = Path(settings.model).name, Path(file).stem, settings.chooses_layout
    level = "chosen.graph_optimization_level = ort.GraphOptimizationLevel"
    if chooses:
        keeps = "chooses the layout of convolutions for its processor, and takes memory as tensors need it"
        options, level = "frees each tensor at its last use.", f"    {level}.ORT_ENABLE_ALL\n"
        memory = "Needs onnxruntime 1.24 or later. The arena grows by what is missing alone."
    else:
        keeps = "keeps lowtide's order, and takes one block of memory for all tensors"
        options = "keeps the file's order and frees each tensor at its last use."
        level = f"    {level}.ORT_DISABLE_ALL  # any other level sets its own order\n"
        level += "    chosen.execution_order = ort.ExecutionOrder.PRIORITY_BASED  # the file's order\n"
        threads = " and one thread; for each further one it is\n64 KiB larger, in which that unfolds convolutions"
        sizes = {
            "peak": f"{settings.peak_bytes:,}",
            "arena": f"{settings.arena_bytes:,}",
            "threads": threads if settings.thread_bytes else "",
        }
        memory = _filled("python_memory.txt", sizes).rstrip("\n")
    entry = 'chosen.add_session_config_entry("session.disable_prepacking", "1")'
    thread = f" + {settings.thread_bytes} * ((threads or os.cpu_count() or 1) - 1)" if settings.thread_bytes else ""
    words = {
        "name": name, "module": stem if stem.isidentifier() else "session", "model": repr(settings.model),
        "arena": settings.arena_bytes, "thread": thread, "extend": settings.growth_bytes, "keeps": keeps,
        "memory": memory,
        "base64": "import base64\n" if settings.block else "", "opt_doc": f"What {options}", "level": level,
        "block": _block(settings, "python_block.txt", name, " " * 8, "\n"),
        "check": "    check_processor()\n" if settings.block else "",
        "more": "" if settings.prepacked else f"    {entry}  # kernels would keep copies of the weights\n",
    }  # fmt: skip
    return _filled("python.txt", words)


def _cpp(settings: SessionSettings, file: str) -> str:
    """A C++17 header; its namespace is made of the file's name."""
    name = Path(settings.model).name
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    entry = 'chosen.AddConfigEntry("session.disable_prepacking", "1");'
    words = {
        "name": name, "file": file, "model": settings.model, "arena": settings.arena_bytes,
        "thread": settings.thread_bytes,
        "space": re.sub(r"^(?=\d)", "_", re.sub(r"\W", "_", Path(file).stem, flags=re.ASCII)),
        "extend": settings.growth_bytes, "level": "ORT_ENABLE_ALL" if settings.chooses_layout else "ORT_DISABLE_ALL",
        "block": _block(settings, "cpp_block.h", quoted, " " * 8, "\n"),
        "check": "    check_processor(env);\n" if settings.block else "",
        "more": "" if settings.prepacked else f"    {entry}  // kernels would keep copies of the weights\n",
    }  # fmt: skip
    return _filled("cpp.h", words)


def _javascript(settings: SessionSettings, file: str) -> str:
    """For onnxruntime-node and onnxruntime-web."""
    name = Path(settings.model).name
    data = json.dumps(f"{name}.data")
    web = f"//     // in a browser: lowtideOpen(ort, URL, {{ externalData: [{{ path: {data}, data: URL }}] }})\n"
    words = {
        "name": name, "file": file, "path": json.dumps(settings.model), "web": web if settings.mapped else "",
        "level": "all" if settings.chooses_layout else "disabled",
        "more": "" if settings.prepacked else ', disable_prepacking: "1"',
        "block": _block(settings, "javascript_block.js", json.dumps(name), " " * 4, " +\n"),
        "check": "  await checkProcessor(ort);\n" if settings.block else "",
    }  # fmt: skip
    return _filled("javascript.js", words)


_TEXTS: dict[Language, Callable[[SessionSettings, str], str]] = {"py": _python, "cc": _cpp, "js": _javascript}


def probe_lines() -> list[str]:
    """The probe of the processor in base 64, in lines of a program's length."""
    encoded = base64.b64encode(block_probe()).decode()
    return [encoded[at : at + 96] for at in range(0, len(encoded), 96)]
