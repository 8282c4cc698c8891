"""Contract tests, shipped: run them on your own policy."""
