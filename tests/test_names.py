"""Names that are too long for a line, and names as people type them."""

from hypothesis import example, given
from hypothesis import strategies as st

from lowtide.names import did_you_mean, shorten, spelling


@given(st.text(max_size=40), st.integers(5, 40))
@example("000000..0000", 10)
def test_names_fit_and_keep_both_ends(text: str, width: int):
    """Short ones stay; others have exactly the width, their own beginning and end, and dots between."""
    short = shorten(text, width)
    if len(text) <= width:
        assert short == text
        return
    assert len(short) == width
    cuts = [i for i in range(1, width - 2) if short[i : i + 3] == "..."]
    assert any(text.startswith(short[:i]) and text.endswith(short[i + 3 :]) for i in cuts)


@given(st.text(st.sampled_from("abC1 2-_./"), max_size=12))
def test_a_spelling_is_its_own_spelling(text: str):
    """Upper case, blanks and punctuation change nothing; letters and digits do."""
    assert spelling(spelling(text)) == spelling(text.upper()) == spelling(f" {text}-") == spelling(text)
    assert spelling(text + "x") != spelling(text)


def test_what_is_most_like_a_name_is_asked_first():
    """At most three, as they are known, whatever the spelling; nothing where nothing is like it."""
    known = ["esp32-s3", "ESP32-S2", "rp2040", "rp2350"]
    assert did_you_mean("Esp32 s33", known).startswith("; did you mean esp32-s3")
    assert did_you_mean("rp2041", known).startswith("; did you mean rp2040")
    assert did_you_mean("zzz", known) == did_you_mean("", known) == ""
