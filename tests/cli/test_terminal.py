"""What is said on stderr while a command works: on a terminal one line, elsewhere lines, and silence if asked for."""

import io
import time

import pytest

from lowtide.cli import terminal
from lowtide.cli.terminal import ProgressLine
from lowtide.stop import Progress


class Terminal(io.StringIO):
    """A text stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def waited(line: ProgressLine, stream: io.StringIO, word: str) -> str:
    """What is said once `word` is in it, or after 20 seconds."""
    with line:
        end = time.monotonic() + 20
        while word not in stream.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    return stream.getvalue()


def test_a_command_that_reports_nothing_says_that_it_works(monkeypatch: pytest.MonkeyPatch):
    """One line, written over, and gone at the end; it is as wide as the terminal at most."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(terminal, "FIRST_SECONDS", 0.02)
    monkeypatch.setenv("COLUMNS", "9")
    said = waited(ProgressLine(quiet=False), stream, "working")
    assert said.startswith("\rworking,\x1b[K")
    assert said.endswith("\r\x1b[K")


def test_where_it_is_no_terminal_lines_are_whole(monkeypatch: pytest.MonkeyPatch):
    """No control characters, a line each time."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(terminal, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(terminal, "SILENT_SECONDS", 0.02)
    said = waited(ProgressLine(quiet=False), stream, "working")
    assert said.startswith("lowtide: working, 0 s\n")
    assert "\x1b" not in said
    assert "\r" not in said


def begun(seconds: float) -> ProgressLine:
    """A line of a command that began so long ago."""
    line = ProgressLine(quiet=False)
    line._began -= seconds
    return line


def test_quiet_and_what_is_over_say_nothing(monkeypatch: pytest.MonkeyPatch):
    """Neither progress nor messages; and after the end no line comes back over the result."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    quiet = ProgressLine(quiet=True)
    quiet(Progress(8, 4, 9.0))
    quiet.message("done")
    assert stream.getvalue() == ""
    line = begun(9.0)
    line(Progress(8, 4, 2.0))
    assert "lowest peak so far 8 B, 4 B (-50.00 %) at the least, 9 s" in stream.getvalue()
    line.end()
    before = stream.getvalue()
    line(Progress(8, 4, 99.0))
    assert stream.getvalue() == before


def test_the_lowest_peak_does_not_rise_with_another_search(monkeypatch: pytest.MonkeyPatch):
    """Until something else is done, such as another model."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    line = begun(9.0)
    line(Progress(8, 0, 2.0))
    for peak, shown in ((9, 8), (7, 7)):
        line._last_report = 0.0
        line(Progress(peak, 0, 2.0))
        assert f"lowest peak so far {shown} B" in stream.getvalue().splitlines()[-1].split("\r")[-1]
    line.doing("another model")
    line._last_report = 0.0
    line(Progress(9, 0, 2.0))
    assert "lowest peak so far 9 B" in stream.getvalue()
    line.end()


def test_what_was_found_stays_in_the_line_through_all_searches(monkeypatch: pytest.MonkeyPatch):
    """No search begins the line anew with a figure or a bar of its own."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    line = begun(9.0)
    line.keep_saying("48 MiB so far, 94 MiB today")
    for doing in ("searching for tiles", "measuring the plan", "searching for tiles"):
        line.doing(doing)
        line._last_report = 0.0
        line(Progress(9, 3, 2.0))
        assert stream.getvalue().split("\r")[-1].startswith(f"48 MiB so far, 94 MiB today; {doing}, 9 s")
    line.keep_saying("")
    line.doing("another model")
    line._last_report = 0.0
    line(Progress(9, 3, 2.0))
    assert "lowest peak so far 9 B" in stream.getvalue().split("\r")[-1]
    line.end()


def test_figures_that_are_not_known_are_left_out(monkeypatch: pytest.MonkeyPatch):
    """Without a best plan no best is said, and no bar is drawn; what is being done is."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(terminal, "TERMINAL_SECONDS", 0.0)
    line = begun(9.0)
    line(Progress(0, 0, 1.0, "trying 3 B in 2 parts"))
    line(Progress(8, 0, 1.0, "looking for loops"))
    line(Progress(0, 0, 1.0))
    said = stream.getvalue().split("\r")[1:]
    ends = [
        f"{words}, 9 s\x1b[K"
        for words in ("trying 3 B in 2 parts", "looking for loops, lowest peak so far 8 B", "working")
    ]
    assert said == ends


def test_a_phase_that_begins_early_is_what_the_clock_says(monkeypatch: pytest.MonkeyPatch):
    """What is reported in the first two seconds is not said at once, and is what is said of the time that goes by."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    line = ProgressLine(quiet=False)
    line(Progress(8, 0, 0.5, "looking for loops"))
    assert stream.getvalue() == ""
    monkeypatch.setattr(terminal, "FIRST_SECONDS", 0.02)
    assert "looking for loops, lowest peak so far 8 B, " in waited(line, stream, "looking")


def test_the_best_so_far_stays_until_there_is_better(monkeypatch: pytest.MonkeyPatch):
    """Its lines are taken back, as many as were written, by the next ones and at the end; nowhere but on a terminal."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    line = ProgressLine(quiet=False)
    line.so_far("today 3\nplanned 2")
    assert stream.getvalue() == "today 3\nplanned 2\n"
    line.so_far("planned 1")
    line.end()
    assert stream.getvalue().endswith("\x1b[2A\x1b[Jplanned 1\n\x1b[1A\x1b[J")
    quiet = io.StringIO()
    monkeypatch.setattr("sys.stderr", quiet)
    plain = ProgressLine(quiet=False)
    plain.so_far("today 3")
    plain.end()
    assert quiet.getvalue() == ""
