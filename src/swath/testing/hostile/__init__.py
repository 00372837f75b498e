"""A web site that does everything wrong: each behaviour has a name, an address, and the failure an item ends with.

`HostileSite` serves it inside a test; `python -m swath.testing.hostile` serves it for people and lists the addresses.
"""

from swath.testing.hostile.behaviour import Behaviour, Door
from swath.testing.hostile.site import HostileSite
from swath.testing.hostile.table import BEHAVIOURS, BROWSER_BEHAVIOURS, behaviour

__all__ = ["BEHAVIOURS", "BROWSER_BEHAVIOURS", "Behaviour", "Door", "HostileSite", "behaviour"]
