from __future__ import annotations

import pytest

from mutations import CORE, MUTATIONS, Mutation, apply


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_old_text_occurs_once(mutation: Mutation) -> None:
    """`python tests/mutations.py` can still apply it."""
    assert (CORE / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1
    assert mutation.new != mutation.old


def test_names_are_unique() -> None:
    """So that one can be asked for."""
    assert len({m.name for m in MUTATIONS}) == len(MUTATIONS)


def test_text_that_is_gone_is_refused(tmp_path) -> None:
    """A mutation that no longer applies is an error, not a survivor."""
    (tmp_path / "order").mkdir()
    (tmp_path / "order/walker.cc").write_text("nothing of it")
    with pytest.raises(ValueError, match="occurs 0 times"):
        apply(next(m for m in MUTATIONS if m.file == "order/walker.cc"), tmp_path)
