"""YAML that people write, for policies of all kinds. As YAML 1.2 has it: `no` is Norway and `22:00` a time of day."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Final

import yaml

__all__ = ["parse_yaml", "write_yaml"]

_WHOLE: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)$")
_BROKEN: Final = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$")
_TRUTH: Final = re.compile(r"(?:true|True|TRUE|false|False|FALSE)$")
_NOTHING: Final = re.compile(r"(?:~|null|Null|NULL|)$")


def parse_yaml(text: str) -> object:
    """What the text says. Raises yaml.YAMLError, for a key that stands twice and for an alias too."""
    return yaml.load(text, _Loader)  # noqa: S506 a SafeLoader with less, not more


def write_yaml(content: object) -> str:
    """Text that `parse_yaml` and readers of YAML 1.1 read back as the same."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Loader(yaml.SafeLoader):
    """Safe, with the plain words of YAML 1.2, without aliases, by which a small file makes a huge value; keys once."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(None, None, "aliases (*name) are not allowed", self.get_mark())
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.MarkedYAMLError(None, None, f"the key {key.value!r} is there twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Quotes whatever YAML 1.1 or 1.2 would take for anything but text, and escapes what folding would lose."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True

    def represent_text(self, text: str) -> yaml.Node:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(str, _Dumper.represent_text)

_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("int", _WHOLE, "-+0123456789"),
    ("float", _BROKEN, "-+0123456789."),
    ("bool", _TRUTH, "tTfF"),
    ("null", _NOTHING, ["~", "n", "N", ""]),
):
    for _words in (_Loader, _Dumper):
        _words.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, list(_first))
