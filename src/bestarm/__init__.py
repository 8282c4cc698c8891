"""Find the best of several options, even while the baseline drifts."""
