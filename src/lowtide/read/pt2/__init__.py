"""torch.export archives."""
