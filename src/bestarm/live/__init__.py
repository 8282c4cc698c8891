"""Experiments that people or programs answer: ask and tell."""
