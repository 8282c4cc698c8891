"""Methods that work in phases: plan, estimate, eliminate."""
