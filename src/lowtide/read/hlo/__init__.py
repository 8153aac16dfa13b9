"""Scheduled HLO text, as XLA prints a compiled program."""
