"""What an unmodified graph costs: storages, liveness, structure."""
