"""Linear methods at a fixed confidence: rewards are x·θ plus noise, without a baseline."""
