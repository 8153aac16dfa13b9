"""Boards that qemu emulates, and the tools that compile and run a program for one.

The files of C here start a board, mark its stack, count instructions and print lines by semihosting. With ``-icount
shift=0`` qemu takes a nanosecond of its own clock for each instruction, so that counts are the same on every run; they
are not cycles.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from os import cpu_count
from pathlib import Path

from lowtide.errors import InputError, VerificationError

_LINE = re.compile(r"(\w+) (\d+) ")
_FLASH = re.compile(r"^\.(?:vectors|text|rodata|init|data)\s+(\d+)", re.MULTILINE)
_OVERFLOW = re.compile(r"region `(\w+)' overflowed by (\d+) bytes")
_COMMON = ("-O2", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-ffunction-sections", "-fdata-sections")
_PATIENCE_SECONDS = 1800
_REGIONS = {"code": "its code", "constants": "its constants", "data": "its arena and static data"}


@dataclass(frozen=True)
class Board:
    """A board of qemu's, and what compiles for it."""

    # name, title: in options, and in texts
    name: str
    title: str
    compiler: str  # its prefix
    flags: tuple[str, ...]  # for the compiler
    emulator: tuple[str, ...]  # the command line that runs a program, without the program
    start: str  # the file that starts it
    simd: str  # what CMSIS-NN is compiled for there
    packages: tuple[str, str, str]  # of Debian: compiler, emulator, C library

    def tool(self, name: str) -> str:
        """A tool of the compiler's."""
        return f"{self.compiler}{name}"

    def check(self, *, library: bool) -> None:
        """See that the tools are there. `library`: whether the program needs a C library. Raises `InputError`: a tool
        is not installed; the message names its package."""
        missing = self._missing(library=library)
        if missing:
            there = ",".join(name for name, board in BOARDS.items() if not board._missing(library=library))
            others = f", or leave it out (`--test qemu:{there}`)" if there else ""
            raise InputError(
                f"--test qemu: {self.title} needs {' and '.join(missing)}: "
                f"`apt install {' '.join(missing.values())}`{others}"
            )

    def _missing(self, *, library: bool) -> dict[str, str]:
        """Tools that are not installed, each with its package."""
        needed = {self.tool("gcc"): self.packages[0], self.emulator[0]: self.packages[1]}
        missing = {tool: package for tool, package in needed.items() if shutil.which(tool) is None}
        if not missing and (library or self.has_memory) and not self._has_library():
            missing["a C library for it"] = self.packages[2]
        return missing

    def _has_library(self) -> bool:
        found = _output([self.tool("gcc"), *self.library_flags, "-E", "-include", "math.h", "-x", "c", "/dev/null"])
        return found is not None

    @property
    def enums(self) -> str:
        """How large its compiler makes an enum, as targets call it."""
        return "short" if self.compiler.startswith("arm") else "int"

    @property
    def has_memory(self) -> bool:
        """Whether `memset` and its like, which compilers call, are a C library's, and not those of `start`."""
        return self.compiler.startswith("arm")

    @property
    def library_flags(self) -> tuple[str, ...]:
        """What the compiler needs to find a C library."""
        return () if self.has_memory else ("--specs=picolibc.specs",)


def _cortex(name: str, cpu: str, machine: str, simd: str) -> Board:
    emulator = ("qemu-system-arm", "-M", machine, "-cpu", cpu)
    flags = (f"-mcpu={cpu}", "-mthumb", "-mfloat-abi=hard")
    packages = ("gcc-arm-none-eabi", "qemu-system-arm", "libnewlib-arm-none-eabi")
    title = f"{cpu.capitalize().replace('-m', '-M')} ({machine})"
    return Board(name, title, "arm-none-eabi-", flags, emulator, "cortex_m.c", simd, packages)


_STRING = """#include <stddef.h>
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
"""
"""The functions of memory, of which `start` has its own where a board has no C library."""

BOARDS = {
    board.name: board
    for board in (
        _cortex("m4", "cortex-m4", "mps2-an386", "dsp"),
        _cortex("m7", "cortex-m7", "mps2-an500", "dsp"),
        _cortex("m55", "cortex-m55", "mps3-an547", "mve"),
        Board(
            "rv32", "RISC-V rv32imc (virt)", "riscv64-unknown-elf-",
            ("-march=rv32imc", "-mabi=ilp32", "-msmall-data-limit=0"),
            ("qemu-system-riscv32", "-M", "virt", "-bios", "none"), "riscv.c", "none",
            ("gcc-riscv64-unknown-elf", "qemu-system-misc", "picolibc-riscv64-unknown-elf"),
        ),
    )
}  # fmt: skip
"""By name."""


@dataclass(frozen=True)
class Run:
    """What a run on a board took, all in bytes but for instructions."""

    board: str  # its name
    arena_bytes: int  # of the arena, with counters and what is kept between runs
    stack_bytes: int  # the most of the stack that the last run used
    flash_bytes: int  # code and constants, without those of the same program without a model
    instructions: int  # of the last run
    wrong: int  # runs whose result is another than expected
    # Of the first such run: its number, the byte, what it is and what it should be
    first: tuple[int, int, int, int] | None = None


@dataclass(frozen=True)
class Bench:
    """Where programs for a board are compiled and linked."""

    board: Board  # for which
    folder: Path  # for what is made; it gets the files of the boards
    library: bool = False  # whether programs call functions of a C library

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in board_files().items():
            (self.folder / name).write_text(text, encoding="utf-8")
        if not self._linked:
            (self.folder / "string.h").write_text(_STRING, encoding="utf-8")

    def program(
        self, name: str, sources: Sequence[Path], words: Sequence[str] = (), archives: Sequence[Path | str] = ()
    ) -> Path:
        """Compile and link sources, with what starts the board. Raises `InputError`: it has more bytes than the board
        as qemu has it, or the compiler refuses it."""
        starting = [self.compiled(self.folder / path, ["-std=gnu11"]) for path in (self.board.start, "qemu_board.c")]
        objects = [*starting, *(self.compiled(path, words) for path in sources)]
        out = self.folder / f"{name}.elf"
        link = [
            "-T", f"{self.board.name}.ld", f"-L{self.folder}", "-nostartfiles", "-nostdlib", "-Wl,--gc-sections",
            "-Wl,--no-warn-rwx-segments", *map(str, (*objects, *archives)), *(["-lm", "-lc"] if self._linked else []),
        ]  # fmt: skip
        self._call([self.board.tool("gcc"), *self._flags(), *link, "-lgcc", "-o", str(out)])
        return out

    def compiled(self, path: Path, words: Sequence[str] = ()) -> Path:
        """An object file. C99 in ISO mode, unless `words` say otherwise: else compilers fuse a multiplication and an
        addition of floats, and the result has other bits."""
        out = self.folder / f"{path.parent.name}-{path.stem}.o"
        flags = [*self._flags(), "-std=c99", *_COMMON, f"-I{self.folder}", *words]
        self._call([self.board.tool("gcc"), *flags, "-c", str(path), "-o", str(out)])
        return out

    def archive(self, name: str, sources: Sequence[Path], words: Sequence[str] = ()) -> Path:
        """A library of sources."""
        out = self.folder / f"lib{name}.a"
        with ThreadPoolExecutor(cpu_count()) as pool:
            objects = list(pool.map(lambda path: str(self.compiled(path, words)), sources))
        self._call([self.board.tool("ar"), "rcs", str(out), *objects])
        return out

    @property
    def _linked(self) -> bool:
        return self.library or self.board.has_memory

    def _flags(self) -> list[str]:
        return [*self.board.flags, *(self.board.library_flags if self._linked else ("-ffreestanding",))]

    def _call(self, command: Sequence[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        if done.returncode == 0:
            return
        over = _OVERFLOW.search(done.stderr)
        if over is not None:
            what = _REGIONS.get(over[1], over[1])
            raise InputError(
                f"{self.board.title} as qemu has it: {what} are {int(over[2]):,} B too large; "
                "name other boards, as --test qemu:m4"
            )
        error = next((line for line in done.stderr.splitlines() if "error" in line or "undefined" in line), done.stderr)
        raise InputError(f"{self.board.title}: {command[0]} refuses it: {error.strip()[:300]}")

    def flash(self, program: Path) -> int:
        """Bytes of code and constants of a program."""
        shown = _output([self.board.tool("size"), "-A", str(program)]) or ""
        return sum(map(int, _FLASH.findall(shown)))

    def run(self, program: Path, nothing: Path) -> Run:
        """Run a program; `nothing` is the same one without a model, whose flash is not counted. Raises
        `VerificationError`: it does not come to its end."""
        command = [*self.board.emulator, "-icount", "shift=0", "-nographic", "-semihosting-config"]
        command += ["enable=on,target=native", "-kernel", str(program)]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=_PATIENCE_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise VerificationError("qemu", f"{self.board.title}: no end after {_PATIENCE_SECONDS} s") from None
        shown = dict(_LINE.findall(done.stdout + done.stderr))
        if done.returncode != 0 or "wrong" not in shown:
            said = " ".join((done.stdout + done.stderr).split())[:300] or "nothing"
            raise VerificationError(
                "qemu", f"{self.board.title}: the program ended with status {done.returncode} and printed {said}"
            )
        number = {key: int(value) for key, value in shown.items()}
        return Run(
            self.board.name, number["arena"], number["stack"], self.flash(program) - self.flash(nothing),
            number["instructions"], number["wrong"],
            tuple(number[key] for key in ("run", "byte", "result", "expected")) if number["wrong"] else None,  # pyright: ignore[reportArgumentType]
        )  # fmt: skip


def board_files() -> dict[str, str]:
    """Texts of the files of C and of the linker's scripts that boards need, by name."""
    found = [path for path in files("lowtide.emit.qemu").iterdir() if path.name.endswith((".c", ".h", ".ld"))]
    return {path.name: path.read_text(encoding="utf-8") for path in found}


def _output(command: Sequence[str]) -> str | None:
    """What a command prints; None if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.stdout if done.returncode == 0 else None
