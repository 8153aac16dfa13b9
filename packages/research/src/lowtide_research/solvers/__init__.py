"""Solvers of linear and integer programs behind one face."""
