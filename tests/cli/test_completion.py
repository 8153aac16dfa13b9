"""`lowtide research completion`: the scripts are valid, and bash completes with them."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from lowtide import api
from lowtide.cli.completion import SHELLS, script
from lowtide.cli.parser import parser_of_all
from support.command import Captured, run, run_json

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script for bash, as a file."""
    path = tmp_path_factory.mktemp("completion") / "lowtide.bash"
    path.write_text(script("bash", parser_of_all()) + "\n")
    return path


def completed(path: Path, line: str, folder: Path) -> list[str]:
    """What bash has for the end of a line, with its own word breaks."""
    words = [word for word in re.split(r"([=:]+)|\s+", line) if word]
    words += [""] if line.endswith((" ", "=", ":")) else []
    quoted = " ".join(f"'{word}'" for word in words)
    program = (
        f"source '{path}'; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({quoted}); "
        f'COMP_CWORD={len(words) - 1}; _lowtide; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, cwd=folder, check=True, timeout=30
    )
    assert done.stderr == ""
    return [word for word in done.stdout.split("\n") if word]


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_valid_and_names_all_that_there_is(shell: str, capsys: Captured, tmp_path: Path) -> None:
    """Every command, and every long option of `plan`; the shell reads it, where it is installed."""
    status, out, err = run(capsys, "research", "completion", shell)
    assert (status, err) == (0, "")
    for word in ("plan", "inspect", "completion", "copy-external", "max-overhead", "esp32s3", "nasnet_a_cifar"):
        assert word in out, word
    assert run_json(capsys, "research", "completion", shell) == {"shell": shell, "script": out.rstrip("\n")}
    file = tmp_path / "script"
    file.write_text(out)
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(file)], check=True, timeout=30)


@needs_bash
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("lowtide re", {"report", "research"}),
        ("lowtide research comp", {"compare", "completion"}),
        ("lowtide comp", set()),
        ("lowtide emit m.tflite --stream", {"--stream-input"}),
        ("lowtide --v", {"--version"}),
        ("lowtide research plan --max-", {"--max-ops", "--max-overhead"}),
        ("lowtide research plan --target onnx", {"onnxruntime"}),
        ("lowtide research plan --target=onnx", {"onnxruntime"}),
        ("lowtide research plan m.onnx --board stm32h74", {b for b in api.boards() if b.startswith("stm32h74")}),
        ("lowtide check m.onnx --format g", {"github"}),
        ("lowtide research plan --method zh", {"zhong"}),
        ("lowtide research plan zoo:swiftnet_cell_", {"swiftnet_cell_a", "swiftnet_cell_b", "swiftnet_cell_c"}),
        ("lowtide research zoo swiftnet_cell_", {"swiftnet_cell_a", "swiftnet_cell_b", "swiftnet_cell_c"}),
        ("lowtide research schema pl", {"plan"}),
        ("lowtide research bench all", {"allocate"}),
        ("lowtide research plan mod", {"model one.onnx", "models"}),
        ("lowtide research plan m.onnx --report rep", {"report.html"}),
        ("lowtide research plan m.onnx --budget 1", set()),
        ("lowtide research completion ", set(SHELLS)),
    ],
)
def test_bash_completes(bash: Path, tmp_path: Path, line: str, words: set[str]) -> None:
    """Commands, options, the names that they take, behind = and :, and files."""
    (tmp_path / "model one.onnx").touch()
    (tmp_path / "models").mkdir()
    (tmp_path / "report.html").touch()
    assert words or "--budget" in line or line == "lowtide comp"
    assert set(completed(bash, line, tmp_path)) == words


@needs_bash
@pytest.mark.slow
def test_bash_completes_at_the_keyboard(bash: Path) -> None:
    """Tab in an interactive shell."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ |= {"PS1": "> ", "TERM": "dumb"}
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    try:
        os.write(terminal, f"source '{bash}'\nlowtide insp\t--lad\t".encode())
        seen, end = b"", time.monotonic() + 20
        while b"lowtide inspect --ladder" not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 4096)
        assert b"lowtide inspect --ladder" in seen
    finally:
        os.kill(process, 9)
        os.close(terminal)
        os.waitpid(process, 0)
