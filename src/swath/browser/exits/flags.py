"""Flags that keep Chromium from going around its exits, and from speaking by itself. Given to every launch.

The exits are what holds; these keep it from trying, and close what does not go by a proxy: UDP and names.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DISABLED_FEATURES", "EGRESS_FLAGS"]

# Of two lists of features Chromium takes the last one, so ours repeats the driver's, which a test compares.
_DRIVERS_OWN: Final = (
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "DialMediaRouteProvider"),
    *("GlobalMediaControls", "HttpsUpgrades", "LensOverlay", "PaintHolding", "ThirdPartyStoragePartitioning"),
    *("BlockOriginHeaderModificationOnRedirect", "AvoidCorsURLLoaderRestartOnRedirect", "Translate", "AutoDeElevate"),
    *("OptimizationHints", "NetworkTimeServiceQuerying", "AimEnabled"),
    *("msForceBrowserSignIn", "msEdgeUpdateLaunchServicesPreferredVersion"),
)
DISABLED_FEATURES: Final[tuple[str, ...]] = (
    *_DRIVERS_OWN,
    "PreconnectToSearch",  # a connection to the search engine with every navigation, by the context's exit
    "AutofillServerCommunication",  # asks what the fields of a form mean, by the context's exit
    "SpareRendererForSitePerProcess",  # a process in advance for one context, thrown away when another one navigates
    # A page of suggestions behind the address bar of each window, in a process of its own: more than half of what a
    # context that serves one page would cost.
    *("WebUIOmniboxPopup", "WebUIOmniboxFullPopup", "WebUIOmniboxAimPopup"),
    # Each document in a frame of its own, with all that belongs to one, where the next page of a site could take over
    # the last one's: a quarter of what a page in a kept context costs. Pages cannot tell.
    "RenderDocument",
)
_NOWHERE: Final = "http://nowhere.invalid:1"  # a port that Chromium itself refuses, and a host that is no site's

EGRESS_FLAGS: Final[tuple[str, ...]] = (
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--disable-quic",
    "--disable-component-update",
    "--disable-domain-reliability",
    f"--component-updater=url-source={_NOWHERE}",  # asked at a start by some versions, whatever is disabled
    f"--gaia-url={_NOWHERE}",  # sign-in, asked at every start
    f"--gcm-checkin-url={_NOWHERE}",  # push messages, asked after a minute
    f"--gcm-registration-url={_NOWHERE}",
    f"--disable-features={','.join(DISABLED_FEATURES)}",
)
