"""What the mathematics shares: spans and norms, draws, totals in cells."""

__all__: list[str] = []
