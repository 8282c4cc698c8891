"""Methods that make one plan and read one answer off it."""
