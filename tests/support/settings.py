"""What every test relies on: an interrupt that arrives, and the same random cases each time."""

import os
import signal
import sys
from importlib import import_module

from hypothesis import HealthCheck, settings

# A run in the background of a shell inherits an ignored Ctrl-C; the tests that send one need it, and so do the
# processes that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of tests start a process: without its bytecode each compiles all of lowtide anew, and pytest rewrites the
# assertions of every file in every run. Images for containers often switch it off.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The same commit gives the same result: what chance finds later must not refuse somebody else's change. Fresh draws,
# and twice as many, are for `make hunt`, which names the profile `default`. A busy machine is no fault of a test's: no
# clock decides.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

# A plan over its budget is followed by searches for what would fit; what a test asks about is there at once.
import_module("lowtide.api.ways_to_fit").RUNG_SECONDS = 0.2

# How long a model runs is measured, and that is tested; figures of more runs, in more processes, are no better a test.
TIMED_PAIRS = import_module("lowtide.run.timing").PAIRS
for _name, _few in (("PAIRS", 1), ("RUNS", 2)):
    setattr(import_module("lowtide.run.timing"), _name, _few)
for _name, _seconds in (("SECONDS", 0.05), ("SETTLED_SECONDS", 0.1)):
    setattr(import_module("lowtide.api.default.onnx"), _name, _seconds)

# Models of tests are small: a search that gained nothing for a second gains nothing in five.
for _name in ("api.moves.cut_search", "api.moves.cut_orders"):
    import_module(f"lowtide.{_name}").PATIENCE_SECONDS = 1.0

# The same goes for a plan of the front door that names no time: two seconds of work of each search, instead of ten.
import_module("lowtide.api.default.request").SECONDS = 2.0
