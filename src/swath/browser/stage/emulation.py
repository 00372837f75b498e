"""Emulation: the size of the window, a telephone in its place, and a slower network. Ends with the page.

Asked by the player; what was changed so goes to no other item. A size alone, with which Chrome begins every recording,
can be taken back: its page may be kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from patchright.async_api import CDPSession, Page

__all__ = ["Screen", "set_network", "set_screen"]


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """In CSS pixels. `scale` is how many real ones each has."""

    width: int
    height: int
    scale: float = 1.0
    mobile: bool = False
    touch: bool = False
    landscape: bool = False

    @property
    def is_size_alone(self) -> bool:
        """Whether nothing is emulated."""
        return not (self.mobile or self.touch or self.landscape) and self.scale == 1.0


async def set_screen(page: Page, cdp: CDPSession | None, screen: Screen) -> None:
    """What the context shows of itself otherwise stays as it is: a size alone leaves its density alone."""
    await page.set_viewport_size({"width": screen.width, "height": screen.height})
    if cdp is None:
        return
    if screen.mobile or screen.scale != 1.0 or screen.landscape:
        turned = (
            {"type": "landscapePrimary", "angle": 90} if screen.landscape else {"type": "portraitPrimary", "angle": 0}
        )
        metrics: dict[str, Any] = {
            "width": screen.width,
            "height": screen.height,
            "deviceScaleFactor": screen.scale,
            "mobile": screen.mobile,
            "screenOrientation": turned,
        }
        await cdp.send("Emulation.setDeviceMetricsOverride", metrics)
    if screen.touch:
        await cdp.send("Emulation.setTouchEmulationEnabled", {"enabled": True})


async def set_network(cdp: CDPSession | None, download: float, upload: float, latency_ms: float) -> None:
    """In bytes a second; none at all when both are 0, and as it is when they are -1."""
    if cdp is None:
        return
    await cdp.send("Network.enable")
    conditions = {
        "offline": download == 0 and upload == 0,
        "latency": latency_ms,
        "downloadThroughput": download,
        "uploadThroughput": upload,
    }
    await cdp.send("Network.emulateNetworkConditions", conditions)
