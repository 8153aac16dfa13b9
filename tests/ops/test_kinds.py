"""The table of op kinds: one row per type, and what a row says goes together."""

from collections import Counter

import pytest

from lowtide.ops.kinds import TABLE, kind_of


def test_no_type_has_two_rows():
    """Else which row holds would depend on their order."""
    twice = [t for t, n in Counter(t for row in TABLE for t in row.types).items() if n > 1]
    assert twice == []
    assert len({row.family for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.family)
def test_a_row_is_consistent(row):
    """No view is elementwise; views overwrite nothing; what may run in place says over which inputs."""
    assert not (row.view and row.elementwise)
    assert row.overwrites in ("none", "first", "any")
    assert row.view == (row.overwrites == "none")
    for name in row.types:
        assert kind_of(name) is row


def test_overloads_and_strangers():
    """An ATen overload is its operator; a type of another domain is not in the table even if its last part is."""
    assert kind_of("aten.add_.Tensor") is None
    assert kind_of("aten.view.default") is kind_of("aten.view")
    for stranger in ("com.example::Relu", "relu", "ReLU", "aten", "aten.", "", "Conv", "Softmax"):
        assert kind_of(stranger) is None, stranger


def test_names_of_dialects_differ_where_meanings_do():
    """TFLite's MEAN and SUM reduce, ONNX's Mean and Sum add operands; only the latter are elementwise."""
    assert kind_of("Mean") is not None
    assert kind_of("Sum") is not None
    assert kind_of("MEAN") is None
    assert kind_of("SUM") is None
