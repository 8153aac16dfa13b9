"""Which boards a model fits: each figure is that of the command that makes the plan or the code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lowtide
from lowtide.api.emitting import library_project_of
from lowtide.errors import InputError
from lowtide.report.on_boards import C_LIBRARY, LIBRARY, OWN_C, PLANNED, REFERENCE, WAYS, BoardFit, BoardWay
from support.small_models import onnx_file
from support.tflite_nets import pyramid

WITHOUT = ["tile", "alias"]
"""For the plan for TFLM, so that its order alone is searched."""
BOARD = """
library = "cmsis_nn"
simd = "{simd}"
clock = {clock}
flash = "{flash}"
bank = [{banks}]
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file whose tensors grow smaller."""
    path = tmp_path / "net.tflite"
    path.write_bytes(pyramid().bytes())
    return path


@pytest.fixture
def on(tmp_path: Path, model: Path) -> Callable[..., dict[str, BoardWay]]:
    """The ways on a board of one's own."""

    def ways(banks: str, simd: str = "dsp", clock: int = 100, flash: str = "1MiB") -> dict[str, BoardWay]:
        path = tmp_path / "mine.toml"
        path.write_text(BOARD.format(simd=simd, clock=clock, flash=flash, banks=banks))
        (found,) = lowtide.research.board_fits(model, path, without=WITHOUT)
        assert found.board == "mine"
        return {way.how: way for way in found.ways}

    return ways


def test_every_figure_is_that_of_its_command(model: Path, on: Callable[..., dict[str, BoardWay]]) -> None:
    """TFLM today by its libraries, the plan, lowtide's C, and C with CMSIS-NN."""
    ways = on('{ name = "ram", size = "1MiB" }')
    assert tuple(ways) == WAYS
    for how, kernels in ((REFERENCE, "reference"), (LIBRARY, "cmsis_nn")):
        seen = lowtide.check(model, "1MiB", target=f"tflm,pointer=32,kernels={kernels}", as_is=True)
        assert ways[how].ram_bytes == seen.required_bytes
    assert ways[PLANNED].ram_bytes == lowtide.plan(model, budget="1MiB", without=WITHOUT).required_bytes
    own = lowtide.research.plan(model, target="loops", allow="row-streaming", time=10)
    assert own.required_bytes <= ways[OWN_C].ram_bytes < 2 * own.required_bytes
    project, chosen = library_project_of(model, simd="dsp")
    assert ways[C_LIBRARY].ram_bytes == project.sizes.arena_bytes + project.sizes.counter_bytes
    assert ways[C_LIBRARY].seconds == chosen.cost / 100e6
    assert ways[LIBRARY].seconds == chosen.untiled_cost / 100e6
    assert ways[REFERENCE].seconds is ways[OWN_C].seconds is None


@pytest.mark.slow
def test_a_way_fits_where_its_ram_and_flash_are(on: Callable[..., dict[str, BoardWay]]) -> None:
    """To the byte; the fastest memory is taken that holds the arena, and memory outside of the chip last."""
    needed = {how: way.ram_bytes for how, way in on('{ name = "ram", size = "1MiB" }').items()}
    most = max(needed.values())
    ways = on(f'{{ name = "psram", size = "1MiB" }}, {{ name = "ram", size = {needed[OWN_C]} }}')
    assert (ways[OWN_C].memory, ways[OWN_C].ram_left_bytes) == ("ram", 0)
    assert ways[REFERENCE].memory == "psram"
    assert ways[LIBRARY].memory == "psram"
    assert ways[LIBRARY].seconds is None  # memory outside is not what was counted
    ways = on(f'{{ name = "ram", size = {needed[OWN_C] - 1} }}')
    assert not ways[OWN_C].fits
    assert (ways[OWN_C].memory, ways[OWN_C].ram_left_bytes) == ("", -1)
    ways = on(f'{{ name = "ram", size = {most} }}', flash="1KiB")
    assert not any(way.fits for way in ways.values())
    assert all(way.memory == "ram" for way in ways.values())


@pytest.mark.slow
def test_time_is_said_of_counted_instructions_alone(on: Callable[..., dict[str, BoardWay]]) -> None:
    """Not without a clock, nor for CMSIS-NN as plain C; MVE takes less than DSP."""
    assert on('{ name = "ram", size = "1MiB" }', clock=0)[C_LIBRARY].seconds is None
    assert on('{ name = "ram", size = "1MiB" }', simd="none")[C_LIBRARY].seconds is None
    fast = on('{ name = "ram", size = "1MiB" }', simd="mve")[C_LIBRARY].seconds or 9.0
    assert fast < (on('{ name = "ram", size = "1MiB" }')[C_LIBRARY].seconds or 0.0)


@pytest.mark.slow
def test_all_boards_are_listed_the_smallest_that_fits_first(model: Path) -> None:
    """Those that lowtide knows; boards without CMSIS-NN have no such C."""
    found = lowtide.research.board_fits(model, without=WITHOUT)
    assert {fit.board for fit in found} == set(lowtide.research.boards())
    sizes = [fit.ram_bytes for fit in found if fit.fits]
    assert sizes == sorted(sizes)
    assert [fit.fits for fit in found] == sorted((fit.fits for fit in found), reverse=True)
    of: dict[str, BoardFit] = {fit.board: fit for fit in found}
    assert C_LIBRARY not in {way.how for way in of["esp32s3"].ways}
    assert LIBRARY in {way.how for way in of["esp32s3"].ways}
    assert LIBRARY not in {way.how for way in of["k210"].ways}
    arenas = {way.how: way.ram_bytes for way in of["k210"].ways}
    assert arenas[REFERENCE] > next(way.ram_bytes for way in of["rp2040"].ways)  # pointers of 64 bits


def test_a_model_without_code_in_c_has_the_other_ways(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where emit refuses it."""

    def refuse(*_: object, **__: object) -> None:
        raise InputError("no")

    monkeypatch.setattr("lowtide.api.emitting.check_emit", refuse)
    monkeypatch.setattr("lowtide.api.emitting.library_project_of", refuse)
    (found,) = lowtide.research.board_fits(model, "nrf52840", without=WITHOUT)
    assert [way.how for way in found.ways] == [REFERENCE, LIBRARY, PLANNED]


def test_other_models_and_targets_are_refused(tmp_path: Path) -> None:
    """Boards run .tflite files."""
    with pytest.raises(InputError, match=r"boards run \.tflite files"):
        lowtide.research.board_fits(onnx_file(tmp_path))
    with pytest.raises(InputError, match="there is no board"):
        lowtide.research.board_fits("net.tflite", "pdp11")
