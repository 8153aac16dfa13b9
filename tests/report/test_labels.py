"""Names on a screen: whole, or cut so that each can be told from the others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lowtide.report.columns import WIDTH, labels

NAMES = st.lists(st.text(st.sampled_from("ab/_1"), max_size=70), max_size=12)


@given(NAMES)
def test_no_two_names_look_alike(names: list[str]) -> None:
    """However they are cut; without a width each is whole."""
    shown = labels(names, WIDTH)
    assert set(shown) == set(names)
    assert len(set(shown.values())) == len(set(names))
    assert labels(names, None) == {name: name for name in names}


def test_layers_of_one_network_differ_where_they_do() -> None:
    """Names with a common beginning and end keep what is between."""
    names = [
        f"MobilenetV1/MobilenetV1/Conv2d_{i}_{kind}/Relu6" for i in range(14) for kind in ("pointwise", "depthwise")
    ]
    shown = labels(names, WIDTH)
    assert shown[names[3]] != shown[names[5]]
    assert all("wise/Relu6" in text for text in shown.values())
    assert max(map(len, shown.values())) <= WIDTH + 3
