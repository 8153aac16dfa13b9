"""Code blocks of Markdown pages, run as a reader would run them: a page from top to bottom, in one empty folder.

- ``console`` (and a bare block that begins with ``$``): each line behind ``$`` runs in bash, `lowtide` on the path;
  what stands below it is what it prints on stdout, where ``...`` stands for anything, seconds for any seconds, and
  measured numbers for any (of memory with their sign; whether weights get a file of their own hangs on them).
  ``pip`` is not called. A line that is one call of `lowtide`, perhaps with ``; echo exit status $?`` behind, is called
  in this process, which has imported already what each would import anew; and `measure`, `curve` and a plan with
  `--allow` of which nothing is printed have 1.5 seconds, whatever time is named, but for a budget without one.
- ``python``: the blocks of a page are one program; one with ``>>>`` is compared line by line.
- ``{code-block}`` with a ``:caption:``: a file of that name, which the block becomes.
- ``c``, ``cpp``, ``text``, ``html``: for reading; commands of other programs, and pieces of code, are ``text``.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lowtide
from lowtide.cli import main

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
READ_ONLY = {"c", "cpp", "js", "text", "html", "{toctree}", "{literalinclude}", "{eval-rst}", "{include}"}
_STATUS = "; echo exit status $?"
_FENCE = re.compile(r"^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block: its language, its text, the line of the page after its fence, and the heading of its section."""

    language: str
    text: str
    line: int
    section: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    end, section = 0, ""
    for match in _FENCE.finditer(page):
        headings = re.findall(r"^#+ (.+)$", page[end : match.start()], re.MULTILINE)
        end, section = match.end(), headings[-1] if headings else section
        language = match["language"].split()[0] if match["language"].strip() else ""
        text = match["text"]
        if not language and text.lstrip().startswith("$ "):
            language = "console"
        yield Block(language, text, page.count("\n", 0, match.start()) + 2, section)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, and what should be printed."""
    command, expected = "", []
    for line in text.splitlines():
        if line.startswith("$ ") or (command.endswith("\\\n") and not expected):
            if command and not command.endswith("\\\n"):
                yield command, "\n".join(expected)
                command, expected = "", []
            command += line.removeprefix("$ ") + ("\n" if line.endswith("\\") else "")
        else:
            expected.append(line)
    if command:
        yield command, "\n".join(expected)


def run_page(path: Path, folder: Path, without: Collection[str] = ()) -> list[str]:
    """Run a page's blocks in a folder and return one text, with the line, for each that differs from the page.

    Blocks of the sections `without` are left out.
    """
    wrong: list[str] = []
    names: dict[str, Any] = {"__name__": "__page__"}
    environment = _environment(folder)
    before, width = Path.cwd(), os.environ.get("COLUMNS")
    os.chdir(folder)
    os.environ["COLUMNS"] = environment["COLUMNS"]
    sys.path.insert(0, str(folder))
    try:
        for block in blocks(path.read_text(encoding="utf-8")):
            place = f"{path.name}:{block.line}"
            if block.section in without:
                continue
            if block.language == "console":
                wrong += [f"{place}: {text}" for text in _console(block, environment)]
            elif block.language == "python":
                wrong += [f"{place}: {text}" for text in _python(block, names, place)]
            elif block.language == "{code-block}":
                options, _, text = block.text.partition("\n\n")
                name = re.search(r"^:caption: (\S+)$", options, re.MULTILINE)
                if name is None:
                    wrong.append(f"{place}: no caption names its file")
                else:
                    (folder / name[1]).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name[1]).write_text(text, encoding="utf-8")
            elif block.language not in READ_ONLY:
                wrong.append(f"{place}: nothing is known of blocks of {block.language!r}")
    finally:
        sys.path.remove(str(folder))
        os.chdir(before)
        if width is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = width
    return wrong


def _environment(folder: Path) -> dict[str, str]:
    """`lowtide` and `python` are those of the tests; other programs are the machine's."""
    bin_folder = folder / ".bin"
    bin_folder.mkdir(exist_ok=True)
    for name, words in (("lowtide", '-m lowtide "$@"'), ("python", '"$@"')):
        file = bin_folder / name
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}\n')
        file.chmod(0o755)
    places = [str(Path(lowtide.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": os.pathsep.join(places), "LC_ALL": "C.UTF-8", "COLUMNS": "200"}


def _console(block: Block, environment: dict[str, str]) -> Iterator[str]:
    for command, expected in commands(block.text):
        if command.startswith("pip "):
            continue
        done = _called(command, expected.strip() not in ("", "...")) or subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, env=environment, check=False
        )
        if done.returncode != 0 and not re.search(r"echo (\S+ )*\$\?", command):
            yield f"{command!r} exits with {done.returncode}: {done.stderr}"
        elif expected.strip() and not _same(expected, done.stdout):
            yield f"{command!r} prints\n{done.stdout}\nand not\n{expected}"


def _called(command: str, printed: bool) -> subprocess.CompletedProcess[str] | None:
    """What a call of `lowtide` alone gives, as if it were a process; None: the command is for a shell.

    `printed`: whether the page says what it prints.
    """
    call = command.removesuffix(_STATUS)
    words = shlex.split(call.replace("\\\n", " "), comments=True)
    if words[:1] != ["lowtide"] or re.search(r"[;&|<>$`*?~{}()!]", call):
        return None
    searches = words[1:3] in (["research", "curve"], ["research", "measure"]) or "--allow" in words
    if not printed and searches and ("--time" in words or "--budget" not in words):
        words += ["--time", "1.5"]  # of two the last one counts
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words[1:])
    if call != command:
        out.write(f"exit status {status}\n")
        status = 0
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


def _same(expected: str, printed: str) -> bool:
    wanted, seen = (_timeless(text).strip() + "\n" for text in (expected, printed))
    return doctest.OutputChecker().check_output(wanted, seen, FLAGS)


def _timeless(text: str) -> str:
    """Seconds and measured figures are another's on another machine; so are blank lines, which a doctest marks."""
    text = re.sub(r"^seconds .*$", "seconds", text, flags=re.MULTILINE)
    text = re.sub(r"^(?:time of a run|latency) .*$", "time", text, flags=re.MULTILINE)
    text = re.sub(r"^process .*$", lambda line: re.sub(r"\d[\d,.]*", "N", line[0]), text, flags=re.MULTILINE)
    text = re.sub(r"onnxruntime \d+\.\d+\.\d+,| \S+\.onnx\.data,", "", text)
    return re.sub(r"\b\d+(\.\d+)? (m?s)\b", r"N \2", "\n".join(line for line in text.splitlines() if line.strip()))


def _python(block: Block, names: dict[str, Any], place: str) -> Iterator[str]:
    if ">>> " in block.text:
        lines: list[str] = []
        example = doctest.DocTestParser().get_doctest(block.text, names, place, None, 0)
        doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(example, out=lines.append, clear_globs=False)
        names.update(example.globs)
        if lines:
            yield "".join(lines)
        return
    try:
        exec(compile(block.text, place, "exec", dont_inherit=True), names)
    except Exception as error:
        yield f"{type(error).__name__}: {error}"
