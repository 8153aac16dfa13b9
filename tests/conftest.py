"""What every test relies on."""

import gc

import pytest

import support.settings  # noqa: F401

# Graphs are large and have no cycles: collecting often only costs time, as in the command itself. What collecting the
# tests made stays to the end, and is not looked through again.
gc.set_threshold(200_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The pages first, each of which is one long test: at the end another worker would wait for it."""
    items.sort(key=lambda item: item.path.name != "test_pages.py")


def pytest_collection_finish() -> None:
    """Leave modules and tests out of every garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Take them back, so that the end of the process collects them as it always does."""
    gc.unfreeze()
