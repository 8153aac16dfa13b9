"""Planned training steps with labels as PyTorch modules."""
