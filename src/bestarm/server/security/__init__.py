"""Who may do what, and how much of it: tokens, roles, limits."""
