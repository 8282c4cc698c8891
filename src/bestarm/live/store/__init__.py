"""Where experiments are kept: the contract of a store, in memory, in a database."""
