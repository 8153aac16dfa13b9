"""What LiteRT's kernels do with memory."""
