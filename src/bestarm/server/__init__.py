"""Trials over HTTP: an API in front of live experiments, and a page to watch them on."""

from bestarm.server.app import create_app
from bestarm.server.security.limits import Limits

__all__ = ["Limits", "create_app"]
