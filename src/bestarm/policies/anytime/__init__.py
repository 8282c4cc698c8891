"""The certified rule: valid at every look, under any baseline."""
