"""The aims of a soak (DESIGN 8), as ratios within one run, and what was reached. Pure; shown by report.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from harness.soak.measured_run import Run

__all__ = ["JUDGED_ITEMS", "LOADS", "Aim", "aims_of"]

JUDGED_ITEMS: Final = 100_000  # a smaller run is too short for its ratios to mean anything
MEMORY_LIMIT_BYTES: Final = 200 << 20
LOG_LIMIT_BYTES: Final = 64 << 20
LOADS: Final = {"in order": "", "shuffled": "-shuffled"}  # how the steps are told apart


@dataclass(frozen=True)
class Aim:
    """`reached` and `wanted` are numbers; `at_least` says on which side of `wanted` is good."""

    name: str
    reached: float
    wanted: float
    at_least: bool
    told: str

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.reached >= self.wanted if self.at_least else self.reached <= self.wanted


def aims_of(steps: dict[str, dict[str, Any]], small: Run, large: Run) -> list[Aim]:
    """Everything that is judged. `steps` are the answers of the steps by name, those of the small job with `-small`."""
    return [
        *(aim for told, suffix in LOADS.items() for aim in _load_aims(steps, told, suffix)),
        *_memory_aims(small, large),
        *_work_aims(steps),
        *_manifest_aims(steps, large),
        _log_aim(steps, large),
    ]


def _load_aims(steps: dict[str, dict[str, Any]], told: str, suffix: str) -> list[Aim]:
    product, bare = steps[f"load{suffix}"], steps[f"bare-load{suffix}"]
    rates = [step["items"] / step["seconds"] for step in (product, bare)]
    return [
        Aim(
            f"load against the bare loop, ids {told}",
            rates[0] / rates[1],
            1 / 4,
            at_least=True,
            told=f"{rates[0]:,.0f} against {rates[1]:,.0f} rows/s",
        ),
        _at_most(
            f"memory of the load, ids {told}, MiB", product["peak_bytes"] / (1 << 20), MEMORY_LIMIT_BYTES >> 20, "peak"
        ),
    ]


def _memory_aims(small: Run, large: Run) -> list[Aim]:
    points = ", ".join(f"{large.resident_at(share) / (1 << 20):.0f} at {share:.0%}" for share in (0.1, 0.5, 0.9, 1))
    return [
        _at_most(
            "memory of a worker, large job against small",
            large.peak_bytes / small.peak_bytes,
            1.2,
            f"{large.peak_bytes / (1 << 20):.0f} against {small.peak_bytes / (1 << 20):.0f} MiB at the peak; {points}",
        )
    ]


def _work_aims(steps: dict[str, dict[str, Any]]) -> list[Aim]:
    large, small = steps["store-work-large"], steps["store-work-small"]
    speed = f"{large['items_per_second']:,.0f} against {small['items_per_second']:,.0f} items/s without files"
    aims = []
    for name, key in (("claim", "claim_steps"), ("finish", "finish_steps")):
        worst, base = max(large[key]), sum(small[key]) / len(small[key])
        told = f"{worst:.1f} against {base:.1f} an item at the worst point; {speed}"
        aims.append(_at_most(f"SQLite steps to {name}, large against small", worst / base, 1.1, told))
    return aims


def _manifest_aims(steps: dict[str, dict[str, Any]], large: Run) -> list[Aim]:
    items = steps["load"]["items"]
    bare = steps["bare-manifests"]["seconds"]
    told = f"{items / large.ending_seconds:,.0f} against {items / bare:,.0f} items/s"
    return [
        Aim("ending against the bare loop", bare / large.ending_seconds, 1 / 3, at_least=True, told=told),
        _at_most(
            "memory of the ending, MiB", large.ending_bytes / (1 << 20), MEMORY_LIMIT_BYTES >> 20, "in its worker"
        ),
    ]


def _log_aim(steps: dict[str, dict[str, Any]], large: Run) -> Aim:
    longest = {told: steps[f"load{suffix}"]["log_bytes"] for told, suffix in LOADS.items()}
    found = {**{f"load {told}": size for told, size in longest.items()}, "run": large.largest_log_bytes}
    told = ", ".join(f"{size / (1 << 20):.0f} {when}" for when, size in found.items())
    return _at_most("write-ahead log, MiB", max(found.values()) / (1 << 20), LOG_LIMIT_BYTES >> 20, told)


def _at_most(name: str, reached: float, wanted: float, told: str) -> Aim:
    return Aim(name, reached, wanted, at_least=False, told=told)
