"""CMSIS-NN's sources, which are not part of lowtide: where they are, and which of them a model needs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from lowtide.errors import InputError

VARIABLE = "CMSIS_NN"
"""Names the library's folder, as in the CMake file of an emitted project."""
_DEFINED = re.compile(r"^(?:[\w*]+[ \t]+)+\*?(arm_\w+)\s*\(", re.MULTILINE)
_CALLED = re.compile(r"\barm_\w+")


def library_folder() -> Path:
    """The folder that the environment names. Raises `InputError`: it names none, or one without the library."""
    given = os.environ.get(VARIABLE, "")
    folder = Path(given)
    if given and (folder / "Include/arm_nnfunctions.h").is_file() and (folder / "Source").is_dir():
        return folder.resolve()
    what = f"{given!r} has no Include/arm_nnfunctions.h and Source" if given else "it is not set"
    raise InputError(
        f"--test qemu compiles CMSIS-NN, whose folder the environment variable {VARIABLE} names, and {what}; "
        f"`git clone https://github.com/ARM-software/CMSIS-NN`, then `{VARIABLE}=CMSIS-NN lowtide emit ...`"
    )


def library_words(folder: Path) -> list[str]:
    """Flags of a compiler for sources of the library, and for what calls it."""
    return [f"-I{folder}/Include", f"-I{folder}", "-DARM_NN_ENABLE_F16=0", "-DARM_NN_ENABLE_F32=0"]


def library_sources(folder: Path, code: Sequence[str]) -> list[Path]:
    """Files that define what code calls, and what these files call in turn; `NNSupportFunctions` complete."""
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("Source/**/*.c"))}
    texts = {path: text for path, text in texts.items() if not path.stem.endswith(("_f16", "_f32", "_flt"))}
    defined = {name: path for path, text in texts.items() for name in _DEFINED.findall(text)}
    needed = {path for path in texts if path.parent.name == "NNSupportFunctions"}
    asked = [*code, *(texts[path] for path in needed)]
    while asked:
        called = {defined[name] for name in _CALLED.findall(asked.pop()) if name in defined} - needed
        needed |= called
        asked += [texts[path] for path in called]
    return sorted(needed)
