"""A web site that does everything wrong: each behaviour has a name, an address, and the failure that an item ends with.

`HostileSite` serves it inside a test; `python -m harness.fakes.hostile_site` serves it by hand and lists the
addresses.
"""

from harness.fakes.hostile_site.behaviour import Behaviour, Listening
from harness.fakes.hostile_site.site import HostileSite
from harness.fakes.hostile_site.table import BEHAVIOURS, BROWSER_BEHAVIOURS, behaviour

__all__ = ["BEHAVIOURS", "BROWSER_BEHAVIOURS", "Behaviour", "HostileSite", "Listening", "behaviour"]
