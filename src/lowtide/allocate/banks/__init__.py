"""Several memories: who lies in which, and where."""
