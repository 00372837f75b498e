"""Looks into the models of a recording: the parts of a step that are no steps themselves, and the templates in each.

checking/ asks for them, so that no new field of the language can be forgotten there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, get_args

from swath.actions.language.step import Model, Step
from swath.actions.language.template import TEMPLATE

__all__ = ["PartOf", "joined", "parts_of", "texts_of"]


class PartOf(NamedTuple):
    """A model inside a step, with the path that leads to it; the step itself has none."""

    path: str
    model: Model


def parts_of(model: Model, path: str = "") -> Iterator[PartOf]:
    """The model and all inside it, but for the steps: they have places of their own (walk.py)."""
    yield PartOf(path, model)
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        within = joined(path, field.alias or name)
        if isinstance(value, Mapping):
            for key, part in value.items():
                if isinstance(part, Model):
                    yield from parts_of(part, joined(within, key))
        elif isinstance(value, Model) and not isinstance(value, Step):
            yield from parts_of(value, within)


def texts_of(part: PartOf) -> Iterator[tuple[str, str]]:
    """The templates of one part, with their paths."""
    for name in _templated(type(part.model)):
        alias = type(part.model).model_fields[name].alias or name
        for text in _strings(getattr(part.model, name)):
            yield joined(part.path, alias), text


def joined(path: str, name: str) -> str:
    """A path one step further."""
    return f"{path}.{name}" if path else name


@cache
def _templated(model: type[Model]) -> tuple[str, ...]:
    fields = model.model_fields.items()
    return tuple(name for name, field in fields if _is_template(field.metadata) or _mentions(field.annotation))


def _is_template(metadata: Any) -> bool:
    return any(one is TEMPLATE for one in metadata)


def _mentions(annotation: Any) -> bool:
    """Whether a template is somewhere in the type of a field."""
    if _is_template(getattr(annotation, "__metadata__", ())):
        return True
    return any(_mentions(inner) for inner in get_args(annotation))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _strings(part)
