"""What the mathematics shares: spans and norms, linear algebra, random numbers."""

__all__: list[str] = []
