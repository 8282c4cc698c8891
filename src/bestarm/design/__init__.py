"""Certified experimental designs, one solver behind them."""
