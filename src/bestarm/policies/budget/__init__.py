"""The field's methods with a fixed number of pulls."""
