"""Named places where a test may kill the process. In normal use `reach` does nothing.

Only a hook that a test installs in its own process can arm a place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = [
    "ENDING_POINTS",
    "EXPORT_POINTS",
    "PACK_POINTS",
    "PIECE_POINTS",
    "POINTS",
    "REMOVAL_POINTS",
    "WEBHOOK_POINTS",
    "install",
    "reach",
]

# In the order of a job's path.
POINTS: Final = (
    "after_submit",
    "after_load_batch",
    "before_seal",
    "after_claim",
    "after_stage",
    "before_state_commit",
    "after_state_commit",
    "after_publish",
    "before_release",
    "after_rescue",
    "before_manifest",
    "after_manifest_part",
    "after_job_metadata",
    "after_end",
)
# Each step of an ending at which a process may be stopped while another one ends the job, and the job is run again. Not
# every ending reaches all of them.
ENDING_POINTS: Final = (
    "after_ending_claim",
    "after_ending_room",
    "before_settling_others",
    "before_manifest",
    "before_former_files",
    "before_former_removal",
    "before_document",
    "after_manifest_part",
    "before_pack_removal",
    "before_leftovers",
    "before_withdrawal",
    "before_former_metadata",
    "before_diff",
    "before_current_version",
    "before_job_metadata",
    "after_job_metadata",
    "before_end",
    "after_end",
)
# Between two of several transactions that make one change of a store that is one file.
PIECE_POINTS: Final = ("after_load_piece", "after_retry_piece")
# Of a job whose results are packed, in a folder.
PACK_POINTS: Final = ("amid_append", "after_pack_rename")
# Beyond the path of a job, and only of one that has a webhook.
WEBHOOK_POINTS: Final = ("before_webhook_send", "after_webhook_send", "after_webhook_note")
# Beyond it too: results are written to a file.
EXPORT_POINTS: Final = ("after_export_batch", "before_export_rename")
# Its results are removed: before what there is was looked at, and after the right to do so was confirmed.
REMOVAL_POINTS: Final = ("before_clearing", "before_removal")

_hook: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Says that the process has come to this point."""
    if _hook is not None:
        _hook(point)


def install(hook: Callable[[str], None] | None) -> None:
    """Puts a test's hook in place, or takes it away."""
    global _hook  # noqa: PLW0603 one process-wide switch for tests is the purpose of this module
    _hook = hook
