"""Bounds proved again."""
