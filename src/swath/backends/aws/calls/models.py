"""MODELS: what AWS's services look like, megabytes of JSON, read once for all sessions of a process.

client.py and the credentials of the results make their sessions with it.
"""

from __future__ import annotations

from typing import Final

from botocore.loaders import Loader

__all__ = ["MODELS"]

MODELS: Final = Loader()
