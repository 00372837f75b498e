"""The demo county: a county site of our own that behaves like real ones, for the demo and for tests.

`parcels` says what is true, `routes` what a visitor meets, `switches` what goes wrong and `counters` what was seen. The
site needs nothing but the standard library and httptools, and uvloop where it runs by itself.
"""

from swath.testing.demo_county.counters import Counters
from swath.testing.demo_county.parcels import Parcel, TaxYear, exists, parcel
from swath.testing.demo_county.server import DemoCounty, serve_forever
from swath.testing.demo_county.switches import Switches

__all__ = ["Counters", "DemoCounty", "Parcel", "Switches", "TaxYear", "exists", "parcel", "serve_forever"]
