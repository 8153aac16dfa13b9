"""Least peaks as formulas of propositional logic, so that programs of others can prove and check them."""
