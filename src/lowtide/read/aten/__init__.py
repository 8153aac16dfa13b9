"""ATen programs as graphs, wherever they were traced."""
