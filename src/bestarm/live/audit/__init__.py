"""Whether the record of an experiment is sound: its chain, its draws, its health."""
