"""Plans that change the graph and not its results: cuts, tensors in others, ops that run again, transfers, loops."""
