"""What every test relies on."""

import gc
import signal

from hypothesis import HealthCheck, settings

# A run in the background of a shell inherits an ignored Ctrl-C; the tests that send one need it, and so do the
# processes that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

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


# The same commit gives the same result: what chance finds later must not refuse somebody else's change. Fresh draws are
# for `make hunt`, which names the profile `default`. A busy machine is no fault of a test's: no clock decides.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")
