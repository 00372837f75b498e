"""Applies a profile to a browser context: its options, and what has to be set for each of its workers.

docs/decisions/0018 lists what cannot be covered.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Final

from patchright.async_api import BrowserContext, CDPSession, Error, Page

from swath.fetch.browser.fingerprint.profile import Profile

__all__ = ["REVEALING_FLAGS", "apply_profile", "apply_to_page", "context_options"]

APPLY_SECONDS: Final = 5.0
REVEALING_FLAGS: Final = ("--hide-scrollbars",)
"""The driver's own flags that give a browser away: to be left out at launch."""


def context_options(profile: Profile) -> dict[str, Any]:
    """For `Browser.new_context`. The position is known to the context; pages learn it when a scraper permits that."""
    options: dict[str, Any] = {
        "viewport": {"width": profile.viewport.width, "height": profile.viewport.height},
        "screen": {"width": profile.screen.width, "height": profile.screen.height},
        "device_scale_factor": profile.scale,
        "color_scheme": "dark" if profile.dark else "light",
    }
    if not profile.natural:
        options["user_agent"] = profile.user_agent
    if profile.mobile:
        options |= {"is_mobile": True, "has_touch": True}
    if profile.languages is not None:
        options["locale"] = ",".join(profile.languages)
    if profile.timezone is not None:
        options["timezone_id"] = profile.timezone
    if profile.position is not None:
        options["geolocation"] = {"latitude": profile.position[0], "longitude": profile.position[1]}
    return options


async def apply_profile(context: BrowserContext, profile: Profile) -> None:
    """Before the first navigation, once in the life of a context made with `context_options`.

    Pages that are open are dressed on return, and later ones as soon as they are known. Who opens one, and wants to be
    sure before its first worker starts, waits for `dress_page`. TimeoutError when the browser does not answer.
    """
    if profile.languages is None:
        return

    async def dress_later(page: Page) -> None:
        with suppress(Error, TimeoutError):  # it may be gone again
            await apply_to_page(page, profile)

    context.on("page", dress_later)
    async with asyncio.timeout(APPLY_SECONDS):
        await asyncio.gather(*(apply_to_page(page, profile) for page in context.pages))


async def apply_to_page(page: Page, profile: Profile) -> None:
    """Options cover what a page and its frames show; the workers that it starts are told their languages here.

    May be done twice. TimeoutError when the browser does not answer.
    """
    if profile.languages is None:
        return
    languages = ",".join(profile.languages)

    async def dress_worker(event: dict[str, Any]) -> None:
        with suppress(Error, TimeoutError):  # it may be gone again
            async with asyncio.timeout(APPLY_SECONDS):
                await _set_worker_languages(session, event["sessionId"], languages)

    async with asyncio.timeout(APPLY_SECONDS):
        session = await page.context.new_cdp_session(page)
        session.on("Target.attachedToTarget", dress_worker)
        await session.send(
            "Target.setAutoAttach",
            {
                "autoAttach": True,
                "waitForDebuggerOnStart": True,
                "flatten": False,  # only so can a message be handed on: the driver gives out no inner sessions
                "filter": [{"type": "worker"}, {"type": "service_worker"}, {"exclude": True}],
            },
        )


async def _set_worker_languages(session: CDPSession, worker: str, languages: str) -> None:
    """It waits until it is let go, so that its first line already sees what its page sees."""
    orders: tuple[tuple[str, dict[str, str]], ...] = (
        # An empty user agent leaves it that of its page, with the hints.
        ("Emulation.setUserAgentOverride", {"userAgent": "", "acceptLanguage": languages}),
        ("Runtime.runIfWaitingForDebugger", {}),
    )
    for number, (method, params) in enumerate(orders, start=1):
        message = json.dumps({"id": number, "method": method, "params": params})
        await session.send("Target.sendMessageToTarget", {"sessionId": worker, "message": message})
