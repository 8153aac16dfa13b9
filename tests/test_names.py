"""Names that are too long for a line."""

from hypothesis import given
from hypothesis import strategies as st

from lowtide.names import shorten


@given(st.text(max_size=40), st.integers(5, 40))
def test_names_fit_and_keep_both_ends(text: str, width: int):
    """Short ones stay; others have exactly the width, their own beginning and end, and dots between."""
    short = shorten(text, width)
    if len(text) <= width:
        assert short == text
        return
    head, dots, tail = short.partition("...") if "..." not in text else (short[: short.index("...")], "...", "")
    assert len(short) == width
    assert dots
    assert text.startswith(head)
    assert text.endswith(tail)
