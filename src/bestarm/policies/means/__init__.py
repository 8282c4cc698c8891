"""Methods that pull a few arms per round, by their means and bounds."""
