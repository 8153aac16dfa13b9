"""Published methods, networks and benchmark suites for lowtide."""
