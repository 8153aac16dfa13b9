"""Likely sizes of free dimensions, by name, by axis, and by what the model takes."""

import pytest

from lowtide.read.onnx.likely_sizes import FreeDim, likely_sizes


def _sizes(shape, *, is_float=True, works=lambda _: True):
    """What is offered for an input whose free dimensions are names, or None without one."""
    known = tuple(d if isinstance(d, int) else None for d in shape)
    free = [FreeDim("x", i, d or "", known, is_float) for i, d in enumerate(shape) if not isinstance(d, int)]
    return list(likely_sizes(free, works).values())


@pytest.mark.parametrize(
    ("shape", "is_float", "sizes"),
    [
        (("batch", 3, "height", "width"), True, [1, 224, 224]),
        ((None, 3, None, None), True, [1, 224, 224]),
        ((None, None, None, 3), True, [1, 224, 224]),
        (("N", "C", "H", "W"), True, [1, 3, 224, 224]),
        ((1, 1, 64, "image_width"), True, [320]),
        ((1, 3, 512, None), True, [512]),
        (("batch", "sequence"), False, [1, 128]),
        (("unk__1", "unk__2"), False, [1, 128]),
        (("batch", "samples"), True, [1, 16000]),
        ((2, None, 128), True, [1]),
        ((1, "time", 80), True, [128]),
        (("unk__749", 43844, 1), True, [1]),
        (("seq_len", 576), True, [128]),
    ],
)
def test_a_role_follows_from_the_name_or_the_axis(shape, is_float, sizes):
    """Batches are 1, pictures 224 x 224, lines of text 320 wide, sequences 128 long, sounds a second."""
    assert _sizes(shape, is_float=is_float) == sizes


def test_the_first_set_that_works_is_taken_and_else_the_first():
    """All dimensions change together; a model that takes none of the sets is offered the most usual one."""
    asked = []

    def works(sizes):
        asked.append(tuple(sizes.values()))
        return sizes["height"] == 320

    assert _sizes(("batch", 3, "height", "width"), works=works) == [1, 320, 320]
    assert asked == [(1, 224, 224), (1, 640, 640), (1, 320, 320)]
    assert _sizes(("batch", 3, "height", "width"), works=lambda _: False) == [1, 224, 224]


def test_nothing_is_tried_where_there_is_one_answer():
    """A batch alone is 1; the model is not read for that."""
    assert _sizes(("batch", 3, 32, 32), works=lambda _: pytest.fail("asked")) == [1]


def test_a_name_that_is_a_sum_of_others_is_their_sum():
    """As exporters of decoders write the length of the mask."""
    free = [
        FreeDim("ids", 1, "seq", (1, None), False),
        FreeDim("past", 2, "past", (1, 8, None, 64)),
        FreeDim("mask", 1, "past + seq", (1, None), False),
    ]
    assert likely_sizes(free, lambda _: True) == {"seq": 128, "past": 128, "past + seq": 256}
