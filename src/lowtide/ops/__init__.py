"""What an op is."""
