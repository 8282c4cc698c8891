"""Makes the helpers beside this file importable from every folder of tests."""
