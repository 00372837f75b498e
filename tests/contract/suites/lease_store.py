"""The contract of the LeaseStore port, in seven parts."""

from __future__ import annotations

from tests.contract.suites.lease_store_backlog import BacklogContract
from tests.contract.suites.lease_store_circuit import CircuitContract
from tests.contract.suites.lease_store_claim import ClaimContract
from tests.contract.suites.lease_store_fairness import FairnessContract
from tests.contract.suites.lease_store_finish import FinishContract
from tests.contract.suites.lease_store_poison import PoisonContract
from tests.contract.suites.lease_store_rescue import RescueContract

__all__ = ["LeaseStoreContract"]


class LeaseStoreContract(  # one suite in seven files
    ClaimContract, FairnessContract, FinishContract, RescueContract, CircuitContract, PoisonContract, BacklogContract
):
    """Fixtures to give: `store` (a Store, closed afterwards) on `clock` (a FakeClock), and `kill` (see orders.Kill)."""
