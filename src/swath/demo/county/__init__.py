"""The demo county: a county site that behaves like real ones, for the demo and for tests.

It needs nothing but the standard library and httptools, and uvloop where it runs by itself.
"""

from swath.demo.county.control import Counters, FaultSettings
from swath.demo.county.parcels import Parcel, TaxYear, exists, parcel
from swath.demo.county.server import DemoCountyServer, serve_forever

__all__ = ["Counters", "DemoCountyServer", "FaultSettings", "Parcel", "TaxYear", "exists", "parcel", "serve_forever"]
