"""Searches for plans whose ops run more than once: less memory for more time, and bounds on that time."""
