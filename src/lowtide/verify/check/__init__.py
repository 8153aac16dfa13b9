"""Checks of a plan, each with an algorithm of its own."""
