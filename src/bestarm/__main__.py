"""`python -m bestarm`: the command line."""

from __future__ import annotations

from bestarm.cli import main

if __name__ == "__main__":
    main()
