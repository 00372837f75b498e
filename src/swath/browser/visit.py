"""Visit: one attempt at one item, as far as browsers have to know of it. Made by the worker, used by desk.py."""

from __future__ import annotations

import msgspec

from swath.browser.session.options import SessionOptions
from swath.domain.policy import Proxy
from swath.web.gate import Gate

__all__ = ["Visit"]


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """`owner` is its job, for whose items alone something is kept. `keeps` and `mobile` are the scraper's wishes.
    `proxy` says where its requests come out."""

    site: str
    owner: str
    keeps: bool
    mobile: bool
    proxy: Proxy
    options: SessionOptions
    gate: Gate
