"""Second searches that re-prove the bounds of a plan."""
