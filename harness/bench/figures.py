"""Turns the costs of small and large runs into figures per item, and checks them and the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import nan
from statistics import median
from typing import Any

from harness.bench.contestants import Contestant, Kind
from harness.bench.cost import Cost
from harness.bench.run_order import Order
from harness.soak.aims import Aim

__all__ = ["Figures", "Result", "Sample", "aims_of", "ceiling_of", "problems", "sample_of", "speed_aim"]


@dataclass(frozen=True)
class Sample:
    """One round of one contestant, its start-up and end taken off."""

    cpu_ms: float
    items_per_second: float
    peak_bytes: int
    disk_bytes: float = 0.0
    files: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """All rounds of one contestant; what is shown is the median of each figure."""

    name: str
    told: str
    kind: Kind
    items: int
    samples: tuple[Sample, ...]

    @property
    def cpu_ms(self) -> float:
        """CPU of one item, in all processes of the contestant."""
        return median(sample.cpu_ms for sample in self.samples)

    @property
    def items_per_second(self) -> float:
        """By the wall clock."""
        return median(sample.items_per_second for sample in self.samples)

    @property
    def peak_bytes(self) -> float:
        """Of the large run, all of it."""
        return median(sample.peak_bytes for sample in self.samples)

    @property
    def disk_bytes(self) -> float:
        """What an item takes on disk, its state and its share of whole blocks included."""
        return median(sample.disk_bytes for sample in self.samples)

    @property
    def files(self) -> float:
        """How many files and folders an item makes."""
        return median(sample.files for sample in self.samples)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Everything that is reported. `problems` is what must not be; an aim that was missed is none of them."""

    command: str
    rounds: int
    results: list[Result]
    site_cpu_ms: float
    aims: list[Aim] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """All of it, every round too."""
        results = [
            asdict(result)
            | {
                name: getattr(result, name)
                for name in ("cpu_ms", "items_per_second", "peak_bytes", "disk_bytes", "files")
            }
            for result in self.results
        ]
        return asdict(self) | {"results": results, "aims": [asdict(aim) | {"met": aim.met} for aim in self.aims]}


def sample_of(small: Cost, large: Cost, items: int) -> Sample:
    """What `items` more items cost. Of a run so short that the noise is larger than the work, the speed is 0."""
    seconds = large.seconds - small.seconds
    return Sample(
        cpu_ms=1_000 * (large.cpu_seconds - small.cpu_seconds) / items,
        items_per_second=items / seconds if seconds > 0 else 0.0,
        peak_bytes=large.peak_bytes,
        disk_bytes=(large.disk_bytes - small.disk_bytes) / items,
        files=(large.files - small.files) / items,
    )


def aims_of(results: Sequence[Result]) -> list[Aim]:
    """Those of DESIGN 8 whose contestants took part."""
    by_name = {result.name: result for result in results}
    cpu = [
        _cpu(by_name, "swath warc", "scrapy default", 1 / 8),
        _cpu(by_name, "swath warc", "scrapy uvloop", 1 / 6),
        _cpu(by_name, "swath warc", "crawlee", 1 / 8),
        _cpu(by_name, "swath files", "scrapy default", 1 / 4),
        _cpu(by_name, "swath files", "scrapy uvloop", 1 / 4),
        _cpu(by_name, "swath memory 2", "swath memory 1", 1.1),
        _cpu(by_name, "swath warc 2", "swath warc", 1.1),
    ]
    speed = [
        speed_aim(by_name, "swath warc", "script usual segment", 0.7),
        speed_aim(by_name, "swath files", "script usual files", 0.7),
        speed_aim(by_name, "swath memory 2", "swath memory 1", 1.8),
        speed_aim(by_name, "swath load", "scrapy load", 20.0),
    ]
    return [aim for aim in (*cpu, *speed) if aim is not None]


def ceiling_of(results: Sequence[Result]) -> str:
    """Items a second against the tuned script that keeps the same. Nothing is wanted of it (decision 0022)."""
    by_name = {result.name: result for result in results}
    pairs = [("swath warc", "script tuned segment"), ("swath files", "script tuned files")]
    both = [(by_name[ours], by_name[theirs]) for ours, theirs in pairs if by_name.keys() >= {ours, theirs}]
    ratios = [(_ratio(mine.items_per_second, other.items_per_second), mine.told) for mine, other in both]
    return ", ".join(f"{ratio:.2f} ({told})" for ratio, told in ratios)


def _cpu(results: Mapping[str, Result], ours: str, theirs: str, wanted: float) -> Aim | None:
    if ours not in results or theirs not in results:
        return None
    mine, other = results[ours], results[theirs]
    told = f"{mine.cpu_ms:.2f} against {other.cpu_ms:.2f} ms"
    return Aim(
        f"CPU an item, {mine.told} against {other.told}",
        _ratio(mine.cpu_ms, other.cpu_ms),
        wanted,
        at_least=False,
        told=told,
    )


def speed_aim(results: Mapping[str, Result], ours: str, theirs: str, wanted: float) -> Aim | None:
    """None where one of them did not take part."""
    if ours not in results or theirs not in results:
        return None
    mine, other = results[ours], results[theirs]
    told = f"{mine.items_per_second:,.0f} against {other.items_per_second:,.0f} a second"
    ratio = _ratio(mine.items_per_second, other.items_per_second)
    return Aim(f"items a second, {mine.told} against {other.told}", ratio, wanted, at_least=True, told=told)


def _ratio(mine: float, other: float) -> float:
    """Not a number, which meets no aim, where there is nothing to compare with."""
    return mine / other if other > 0 else nan


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
