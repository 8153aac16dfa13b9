"""Sweeps: many models under many targets, budgets and options, as one table."""
