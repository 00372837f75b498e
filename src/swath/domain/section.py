"""Section: what the models of policies have in common. They are frozen, refuse fields that they do not know, and their
JSON Schema says of each field what stands below it.

Pydantic would read the sources for that when a class is made, so at every start of every command; here they are read
when somebody asks for a schema.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from textwrap import dedent
from typing import TYPE_CHECKING, cast

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

__all__ = ["Section"]


class Section(BaseModel):
    """A part of a policy, or the whole of one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        made = handler(schema)
        fields = handler.resolve_ref_schema(made).get("properties", {})
        for name, told in _told_below_fields(cls).items():
            fields[name].setdefault("description", told)
        return made


def _told_below_fields(model: type[BaseModel]) -> dict[str, str]:
    """What the strings below the fields of the class say, as far as its source is there."""
    try:
        (defined,) = ast.parse(dedent(inspect.getsource(model))).body
    except (OSError, SyntaxError):
        return {}
    lines = cast("ast.ClassDef", defined).body
    return {
        field.target.id: inspect.cleandoc(told.value.value)
        for field, told in pairwise(lines)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(told, ast.Expr)
        and isinstance(told.value, ast.Constant)
        and isinstance(told.value.value, str)
    }
