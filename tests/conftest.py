"""What every test relies on."""

import signal

# A run in the background of a shell inherits an ignored Ctrl-C; the tests that send one need it, and so do the
# processes that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
