"""What TFLM's kernels do with memory."""
