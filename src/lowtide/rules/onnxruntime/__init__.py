"""What onnxruntime's kernels do with memory."""
