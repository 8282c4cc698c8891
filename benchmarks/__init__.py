"""What is fast, and against what. Run as `python -m benchmarks.<name>`."""
