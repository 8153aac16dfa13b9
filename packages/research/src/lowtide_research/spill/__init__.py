"""Published methods of spilling, and those that they are compared with."""
