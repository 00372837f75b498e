"""The steps of a recording as a table for people, and as values for programs. Used by `show`, `check` and `import`."""

from __future__ import annotations

from typing import Any, Final

from swath.actions.language.parts import parts_of, texts_of
from swath.actions.language.recording import Recording
from swath.actions.language.selector import shown
from swath.actions.language.steps import AnyStep, Extract
from swath.actions.language.template import parse
from swath.actions.language.walk import walk
from swath.entrypoints.cli.output import counted, print_table

__all__ = ["inputs_of", "print_steps", "steps_json", "summary"]

_TOLD: Final = ("url", "text", "option", "key", "file", "code", "seconds", "most", "outcome", "page")


def print_steps(recording: Recording) -> None:
    """A line for each step, those inside others too."""
    rows = [
        (row["step"], row["do"], row["on"] or "", row["what"] or "", ", ".join(row["inputs"]))
        for row in steps_json(recording)
    ]
    print_table(("step", "action", "on", "what", "inputs"), rows, shorten=("on", "what"))


def steps_json(recording: Recording) -> list[dict[str, Any]]:
    """What the table has, for programs."""
    return [
        {
            "step": placed.place,
            "do": placed.step.do,
            "name": placed.step.name,
            "on": shown(on) if (on := getattr(placed.step, "on", None)) else None,
            "what": _what(placed.step),
            "inputs": inputs_of(placed.step),
        }
        for placed in walk(recording)
    ]


def inputs_of(step: AnyStep) -> list[str]:
    """The inputs that a step depends on itself, without the steps inside it."""
    references = (
        reference for part in parts_of(step) for _, text in texts_of(part) for reference in parse(text).references
    )
    return list(dict.fromkeys(one.name for one in references if one.root == "input" and one.name is not None))


def summary(recording: Recording) -> str:
    """One line: what it takes, does and gives."""
    steps = [placed.step for placed in walk(recording)]
    fields = list(dict.fromkeys(step.field for step in steps if isinstance(step, Extract)))
    inputs = f"{counted(len(recording.inputs), 'input')}{_names(list(recording.inputs))}"
    gives = f"{counted(len(fields), 'field')}{_names(fields)}" if fields else "no fields: it collects pages only"
    return f"{recording.id} {recording.version}: {counted(len(steps), 'step')}, {inputs}, {gives}"


def _names(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _what(step: AnyStep) -> str | None:
    if isinstance(step, Extract):
        return f"{step.kind} → {step.field}"
    told = (getattr(step, name, None) for name in _TOLD)
    return next((str(value) for value in told if value is not None), None)
