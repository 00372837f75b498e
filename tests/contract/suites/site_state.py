"""The contract of the SiteState port, in three parts: rates, shares, circuits."""

from __future__ import annotations

from tests.contract.suites.site_state_circuit import SiteCircuitContract
from tests.contract.suites.site_state_rate import SiteRateContract
from tests.contract.suites.site_state_slots import SiteSlotsContract

__all__ = ["SiteStateContract"]


class SiteStateContract(SiteRateContract, SiteSlotsContract, SiteCircuitContract):
    """Fixture to give: `book`, a SiteBook with nothing in it, on `clock`, a FakeClock."""
