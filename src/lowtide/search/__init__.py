"""The search over decisions: one incumbent, moves that build on it, one comparison."""
