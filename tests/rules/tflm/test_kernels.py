"""Distances against a simulation of every read and write of the reference kernels."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.ops.index import Window
from lowtide.rules.tflm.kernels import KernelWindow, flat_distance, run_distance, window_distance


def simulated(events: list[tuple[str, int]], width_in: int, width_out: int) -> int:
    """Least distance, 0 or more, at which no write spoils what is read later: events are elements read and written."""
    need = 0
    lowest: int | None = None
    for kind, element in reversed(events):
        if kind == "read":
            at = element * width_in
            lowest = at if lowest is None else min(lowest, at)
        elif lowest is not None:
            need = max(need, (element + 1) * width_out - lowest)
    return need


def walk(w: KernelWindow, *, channelwise: bool, groups: int) -> list[tuple[str, int]]:
    """What the reference kernels read and write, in their order; elements are flat indices."""
    events = []
    batches, in_rows, in_columns, depth = w.input
    _, rows, columns, channels = w.output
    for b in range(batches):
        for y in range(rows):
            for x in range(columns):
                for c in range(channels):
                    if channelwise:
                        read = [c // (channels // depth)]
                    else:
                        size = depth // groups
                        read = list(range(c // (channels // groups) * size, (c // (channels // groups) + 1) * size))
                    for i in range(w.rows.taps):
                        for j in range(w.columns.taps):
                            row = y * w.rows.stride - w.rows.before + i * w.rows.dilation
                            column = x * w.columns.stride - w.columns.before + j * w.columns.dilation
                            if 0 <= row < in_rows and 0 <= column < in_columns:
                                base = ((b * in_rows + row) * in_columns + column) * depth
                                events += [("read", base + d) for d in read]
                    events.append(("write", ((b * rows + y) * columns + x) * channels + c))
    return events


@st.composite
def windows(draw: st.DrawFn) -> tuple[KernelWindow, bool, int]:
    """Small convolutions and poolings of every kind, also with more padding than a file can say."""
    small = st.integers(1, 6)
    channelwise = draw(st.booleans())
    groups = 1 if channelwise else draw(st.integers(1, 2))
    depth = draw(st.integers(1, 3)) * groups
    channels = depth * draw(st.integers(1, 3)) if channelwise else groups * draw(st.integers(1, 3))
    size = (draw(small), draw(small))
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    stride = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    dilation = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    padding = tuple(draw(st.integers(0, (k - 1) * d)) for k, d in zip(kernel, dilation, strict=True))
    result = (draw(small), draw(small))
    batches = draw(st.integers(1, 3))
    rows, columns = (Window(*along) for along in zip(kernel, stride, dilation, padding, strict=True))
    w = KernelWindow((batches, *size, depth), (batches, *result, channels), rows, columns)
    return w, channelwise, groups


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(windows(), st.sampled_from([(1, 1), (4, 4), (2, 2), (1, 4), (4, 1)]))
def test_window_distances_are_exact(case: tuple[KernelWindow, bool, int], widths: tuple[int, int]):
    """Neither a byte more nor less than the simulation needs."""
    w, channelwise, groups = case
    found = window_distance(w, *widths, channelwise=channelwise, groups=groups)
    assert found == simulated(walk(w, channelwise=channelwise, groups=groups), *widths)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 20), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]))
def test_flat_distances_are_exact(elements: int, width_in: int, width_out: int):
    """Element k is read, then written."""
    events = [(kind, k) for k in range(elements) for kind in ("read", "write")]
    assert flat_distance(elements, width_in, width_out) == simulated(events, width_in, width_out)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 5), st.data())
def test_piece_distances_are_exact(pieces: list[int], times: int, data: st.DataObject):
    """A piece is read and written at once: its copy ends at or below its own first byte, and below all that follow."""
    k = data.draw(st.integers(0, len(pieces) - 1))
    need, at = 0, 0
    for turn in range(times):
        for j, size in enumerate(pieces):
            at += size
            unread = turn * pieces[k] if j <= k else (turn + 1) * pieces[k]
            if unread < times * pieces[k] and (j <= k or turn + 1 < times):
                need = max(need, at - unread)
    assert run_distance(pieces, k, times) == need
