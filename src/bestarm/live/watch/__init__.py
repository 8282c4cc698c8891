"""What there is to see of an experiment, as values that pages and reports show."""
