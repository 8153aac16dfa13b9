"""Orders: the plain ones, the exact one, and orders of equal peak."""
