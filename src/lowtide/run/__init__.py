"""Models in their real runtimes."""
