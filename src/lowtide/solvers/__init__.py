"""Walls around OR-tools."""
