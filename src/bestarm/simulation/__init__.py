"""Seeded replications of policies in environments, at full speed."""
