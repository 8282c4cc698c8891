"""Methods: each one file, all under one protocol."""
