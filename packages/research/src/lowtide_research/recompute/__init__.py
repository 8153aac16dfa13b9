"""Published methods of recomputation."""
