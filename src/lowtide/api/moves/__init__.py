"""Plans that change the graph and not its results: tiles, aliases, recomputation, transfers, row streaming."""
