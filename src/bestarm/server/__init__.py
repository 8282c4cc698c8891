"""Experiments over HTTP: an API in front of live experiments, and pages to watch them."""

from bestarm.server.app import create_app
from bestarm.server.guard import Limits

__all__ = ["Limits", "create_app"]
