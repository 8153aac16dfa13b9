"""The session in which onnxruntime keeps a plan, as text to copy or include."""
