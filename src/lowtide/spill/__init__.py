"""Spilling: which storages leave a small fast memory, when they come back, and where they lie."""
