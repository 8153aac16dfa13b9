"""What every test relies on."""

import gc

import support.settings  # noqa: F401

# Graphs are large and have no cycles: collecting often only costs time, as in the command itself. What collecting the
# tests made stays to the end, and is not looked through again.
gc.set_threshold(200_000)


def pytest_collection_finish() -> None:
    """Leave modules and tests out of every garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Take them back, so that the end of the process collects them as it always does."""
    gc.unfreeze()
