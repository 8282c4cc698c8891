"""The pages: what people see in a browser."""
