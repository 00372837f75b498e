"""Inside: the parts of a session, for what works in it beside the author: the stage on which recordings are played.

Given by session.py, used by browser/stage.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from swath.browser.session.documents import Documents
from swath.browser.session.hands import Hands
from swath.browser.session.nuisances import Nuisances
from swath.browser.session.windows import Windows
from swath.ports.clock import Clock

if TYPE_CHECKING:
    from swath.browser.opened import Opened

__all__ = ["Inside", "Undo"]

Undo = Callable[[], Awaitable[Any]]


class Inside(NamedTuple):
    """Those of one attempt. `undo`: what is done before the page goes to the next item, so that it is as it was."""

    opened: Opened
    hands: Hands
    documents: Documents
    nuisances: Nuisances
    windows: Windows
    clock: Clock
    undo: list[Undo]
