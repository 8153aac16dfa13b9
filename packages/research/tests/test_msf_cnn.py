"""Blocks of chains: the accounting against a plain run, the front against all paths, msf-CNN's points."""

from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.errors import InputError
from lowtide_research import zoo
from lowtide_research.msf_cnn import KEPT, WAYS, Layer, Setting, Way, block, chain, front, least
from lowtide_research.zoo.builder import Net
from lowtide_research.zoo.published import figures

PUBLISHED = ("mobilenet_v2_035", "mcunet_v2_vww", "mcunet_320kb")


def layer(rows: int, read: int, filters: int, taps: int, stride: int) -> Layer:
    """A convolution of a square image, padded so that stride 1 keeps its size."""
    made = -(-rows // stride)
    per_pixel = taps * taps * read * filters
    return Layer((rows, rows, read), (made, made, filters), taps, stride, taps // 2, made * made * per_pixel)


@st.composite
def chains(draw: st.DrawFn, most: int = 5) -> list[Layer]:
    """Chains of small images."""
    rows, channels = draw(st.integers(3, 14)), draw(st.integers(1, 3))
    layers = []
    for _ in range(draw(st.integers(1, most))):
        one = layer(rows, channels, draw(st.integers(1, 4)), draw(st.sampled_from((1, 3, 5))), draw(st.integers(1, 2)))
        rows, channels = one.makes[0], one.makes[2]
        layers.append(one)
    return layers


def wanted(one: Layer, row: int, column: int) -> tuple[int, int]:
    """First and last pixel, row by row, that a pixel of a layer's result reads."""
    rows, columns, _ = one.reads
    first = [max(0, at * one.stride - one.before) for at in (row, column)]
    last = [min(size - 1, at * one.stride - one.before + one.taps - 1) for at, size in ((row, rows), (column, columns))]
    return first[0] * columns + first[1], last[0] * columns + last[1]


def most_held(layers: list[Layer], *, by_rows: bool) -> list[int]:
    """Pixels of each tensor between layers that a run, pixel by pixel, holds at the most: from the first that some
    window still reads to the last that is made; whole rows with `by_rows`, where a layer makes a row at a time."""
    made = [0] * len(layers)
    held = [0] * len(layers)

    def look(at: int, now: int) -> None:
        columns = layers[at].reads[1]
        later = (wanted(layers[at], *divmod(n, layers[at].makes[1]))[0] for n in range(now, len_of(at)))
        first, last = min(later), made[at]
        if by_rows:
            first, last = first // columns * columns, -(-last // columns) * columns
        held[at] = max(held[at], last - first)

    def len_of(at: int) -> int:
        return layers[at].makes[0] * layers[at].makes[1]

    def make(at: int, now: int) -> None:
        _, last = wanted(layers[at], *divmod(now, layers[at].makes[1]))
        if at:
            while made[at] <= last:
                make(at - 1, made[at])
                made[at] += 1
            look(at, now)

    for now in range(len_of(len(layers) - 1)):
        make(len(layers) - 1, now)
    return held[1:]


def buffers(layers: list[Layer], way: Way) -> int:
    """What a block of all layers holds between them, in elements: its ends are the network's own."""
    whole = block(layers, 0, len(layers), way)
    assert whole is not None
    return whole.bytes


@pytest.mark.slow
@given(chains(4))
@settings(max_examples=60, deadline=None)
def test_buffers_hold_what_a_run_needs(layers: list[Layer]) -> None:
    """Each layer fed on demand never needs more rows, or pixels, than its buffer has."""
    for way in KEPT:
        for at in range(1, len(layers)):
            pair = layers[at - 1 : at + 1]
            need = most_held(layers, by_rows=way == "rows")[at - 1] * layers[at].reads[2]
            assert need <= buffers(pair, way)


def test_a_buffer_is_no_larger_than_need_be() -> None:
    """On a large image the run fills it: two rows and three pixels of 8 channels for a 3x3 window, or three rows."""
    layers = [layer(20, 3, 8, 1, 1), layer(20, 8, 4, 3, 1)]
    assert most_held(layers, by_rows=False) == [2 * 20 + 3]
    assert buffers(layers, "pixels") == (2 * 20 + 3) * 8
    assert most_held(layers, by_rows=True) == [3 * 20]
    assert buffers(layers, "rows") == 3 * 20 * 8


def every_path(layers: list[Layer], ways: tuple[Way, ...]) -> list[tuple[int, int]]:
    """Peak and multiplications of every way to cut a chain into blocks and to run each."""
    results = []
    for seams in product((False, True), repeat=len(layers) - 1):
        ends = [0, *(i + 1 for i, seam in enumerate(seams) if seam), len(layers)]
        for chosen in product(ways, repeat=len(ends) - 1):
            blocks = [block(layers, a, b, way) for (a, b), way in zip(pairwise(ends), chosen, strict=True)]
            if all(blocks):
                results.append((max(b.bytes for b in blocks if b), sum(b.multiplications for b in blocks if b)))
    return results


@pytest.mark.slow
@given(chains(), st.sampled_from([("rows",), ("pixels",), KEPT, ("again",), WAYS]))
@settings(max_examples=60, deadline=None)
def test_the_front_is_that_of_all_paths(layers: list[Layer], ways: tuple[Way, ...]) -> None:
    """No path is lower at no more multiplications, and each setting is what its blocks say."""
    paths = set(every_path(layers, ways))
    best = {p for p in paths if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in paths)}
    found = front(layers, ways)
    assert [(s.peak_bytes, s.multiplications) for s in found] == sorted(best, reverse=True)
    for setting in found:
        assert setting.peak_bytes == max(b.bytes for b in setting.blocks)
        assert setting.multiplications == sum(b.multiplications for b in setting.blocks)
        assert [b.end for b in setting.blocks][:-1] == [b.begin for b in setting.blocks][1:]
    assert least(layers, ways) == found[-1]


def layers_of(name: str, folder: Path) -> tuple[Layer, ...]:
    """Layers of a network of the zoo."""
    onnx = pytest.importorskip("onnx", reason="pip install 'lowtide[onnx]'")
    path = folder / "net.onnx"
    onnx.save(zoo.build(name).onnx(), path)
    return chain(lowtide.load(path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "multiplications", "rows", "pixels"),
    [
        ("mobilenet_v2_035", 18_909_490, 27_180, 17_833),
        ("mcunet_v2_vww", 11_578_496, 16_720, 14_944),
        ("mcunet_320kb", 81_625_520, 90_112, 76_945),
    ],
)
def test_made_once_msf_cnns_networks_need_little(
    name: str, multiplications: int, rows: int, pixels: int, tmp_path: Path
) -> None:
    """As many multiplications as it counts; and at no more of them, no more bytes than were asked for."""
    layers = layers_of(name, tmp_path)
    assert sum(one.multiplications for one in layers) == multiplications
    for way, most in (("rows", rows), ("pixels", pixels)):
        setting = least(layers, (way,))
        assert setting.multiplications == multiplications
        assert setting.peak_bytes <= most


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_points_to_the_digit_and_none_is_lower(name: str, tmp_path: Path) -> None:
    """Its own blocks give its bytes and multiplications; at no more of these, ours is no higher."""
    layers = layers_of(name, tmp_path)
    every = front(layers)
    rows = [row for row in figures("fusion") if row.network == name]
    for peak in (row for row in rows if row.figure == "peak"):
        (counted,) = (row for row in rows if row.figure == "multiplications" and row.setting == peak.setting)
        setting = fused(layers, peak.note)
        assert (setting.peak_bytes, setting.multiplications) == (peak.amount, counted.amount)
        assert min(s.peak_bytes for s in every if s.multiplications <= counted.amount) <= peak.amount


def fused(layers: tuple[Layer, ...], note: str) -> Setting:
    """The setting that a row of the published figures names: ``layers 0-1 2-6 ...``."""
    ranges = [pair.split("-") for pair in note.split()[1:]]
    blocks = tuple(b for a, z in ranges if (b := block(layers, int(a), int(z) + 1, "again")) is not None)
    assert len(blocks) == len(ranges)
    return Setting(max(b.bytes for b in blocks), sum(b.multiplications for b in blocks), blocks)


def test_what_is_no_chain_is_refused(tmp_path: Path) -> None:
    """An op that is no convolution, and one that reads what is not the op before it, each with its name."""
    onnx = pytest.importorskip("onnx", reason="pip install 'lowtide[onnx]'")
    for branching in (False, True):
        net = Net("net")
        x = net.conv(net.input("x", (1, 3, 8, 8)), 4, 3)
        y = net.conv(x, 4, 1)
        net.output(net.conv(x, 5, 3) if branching else net.relu(y))
        if branching:
            net.output(y)
        onnx.save(net.onnx(), tmp_path / "net.onnx")
        with pytest.raises(InputError, match="is no convolution with a square window"):
            chain(lowtide.load(tmp_path / "net.onnx"))
