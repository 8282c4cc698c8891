"""The HTTP API: routes, schemas, errors."""
