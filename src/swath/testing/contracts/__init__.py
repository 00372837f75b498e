"""What every back end must do, as tests to inherit: one suite per port, and one state machine for the whole store.

A back end's own test class inherits a suite and gives it its fixtures; each suite says which. Needs pytest and Hypothesis.
"""

from swath.testing.contracts.clock import ClockContract
from swath.testing.contracts.job_store import JobStoreContract
from swath.testing.contracts.lease_book import LeaseBookContract
from swath.testing.contracts.orders import Kill, Store
from swath.testing.contracts.result_storage import ResultStorageContract

__all__ = [
    "ClockContract",
    "JobStoreContract",
    "Kill",
    "LeaseBookContract",
    "ResultStorageContract",
    "Store",
]
