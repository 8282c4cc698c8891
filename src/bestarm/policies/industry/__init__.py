"""What testing platforms do about drift: shares that change by period, and means per period."""
