"""Simulated worlds: the only holders of the truth."""
