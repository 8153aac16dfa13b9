"""MAGIS (Chen et al., ASPLOS 2024) as it is printed, beside lowtide's own search."""
