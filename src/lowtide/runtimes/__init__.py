"""What runtimes' own planners make of an order."""
