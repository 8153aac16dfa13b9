"""Several memories: which one holds each buffer, and at which offset."""
