"""Whether a contestant did its work: as many records as items, each the truth. Nobody wins by doing less."""

from __future__ import annotations

from swath.testing.bench.contestants import Contestant
from swath.testing.bench.order import Order

__all__ = ["problems"]


def problems(contestant: Contestant, order: Order) -> list[str]:
    """What is wrong with what a run left behind; nothing when all is well."""
    if contestant.loaded is not None:
        loaded = contestant.loaded(order)
        return [] if loaded == order.items else [f"{contestant.name}: {loaded} of {order.items} rows were loaded"]
    assert contestant.records is not None
    truths, found, wrong, twice = order.truths(), set[str](), list[str](), 0
    for item_id, record in contestant.records(order):
        twice += item_id in found
        found.add(item_id)
        if record != truths.get(item_id):
            wrong.append(item_id)
    missing = truths.keys() - found
    told = []
    if missing:
        told.append(f"{len(missing)} of {order.items} items have no record, such as {min(missing)}")
    if wrong:
        told.append(f"{len(wrong)} records are not what the page says, such as that of {min(wrong)}")
    if twice:
        told.append(f"{twice} records are there twice")
    return [f"{contestant.name}: {words}" for words in told]
