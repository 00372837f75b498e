"""NotYet: an element that was found does not let itself be used in this way yet. Raised by what acts on one."""

from __future__ import annotations

from swath.domain.failure import FailureKind

__all__ = ["NotYet"]


class NotYet(Exception):
    """`why` goes on after what the element is called; `kind` is what it is when it stays so."""

    def __init__(self, why: str, kind: FailureKind) -> None:
        super().__init__(why)
        self.why = why
        self.kind = kind
