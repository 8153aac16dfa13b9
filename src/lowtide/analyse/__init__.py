"""What a graph costs as it stands: storages, liveness, structure."""
