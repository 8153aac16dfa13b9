"""Where each storage lives: one arena, an offset for each tensor, and how close to the load bound that is."""
