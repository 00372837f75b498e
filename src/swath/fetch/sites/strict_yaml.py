"""Strict YAML 1.2: `no` is text and so is `22:00`; duplicate keys and aliases are refused, and values can be capped."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Final

import yaml

__all__ = ["parse_yaml", "write_yaml"]

_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)$")
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$")
_BOOLEAN: Final = re.compile(r"(?:true|True|TRUE|false|False|FALSE)$")
_MOST_DIGITS: Final = 100
_NULL: Final = re.compile(r"(?:~|null|Null|NULL|)$")


def parse_yaml(text: str, *, most_values: int | None = None) -> object:
    """What the text says. Raises yaml.YAMLError, for a key that stands twice and for an alias too.

    `most_values` bounds how long it takes: 40,000 are a second.
    """
    loader = _Loader(text, most_values)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def write_yaml(content: object, *, for_old_readers: bool = True) -> str:
    """Text that `parse_yaml` reads back as the same, and those who read YAML 1.1, to whom `on` is true, if they are to.

    Without them `on` and `22:00` need no quotes.
    """
    dumper = _Dumper if for_old_readers else _Yaml12Dumper
    return yaml.dump(content, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110)


class _Loader(yaml.SafeLoader):
    """Safe, with the plain words of YAML 1.2, without aliases, by which a small file makes a huge value; keys once."""

    def __init__(self, text: str, most_values: int | None) -> None:
        super().__init__(text)
        self._most_values = most_values
        self._values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._values += 1
        if self._most_values is not None and self._values > self._most_values:
            raise yaml.MarkedYAMLError(None, None, f"has more than {self._most_values:,} values", self.get_mark())
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

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Python reads no number of thousands of digits, and says so in words for programmers."""
        if len(node.value) > _MOST_DIGITS:
            what = f"has a number of {len(node.value):,} digits; at most {_MOST_DIGITS}"
            raise yaml.MarkedYAMLError(None, None, what, node.start_mark)
        return super().construct_yaml_int(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


class _Dumper(yaml.SafeDumper):
    """Quotes whatever YAML 1.1 or 1.2 would take for anything but text, and escapes what folding would lose."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True

    def represent_text(self, text: str) -> yaml.Node:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(str, _Dumper.represent_text)


class _Yaml12Dumper(_Dumper):
    """Quotes what YAML 1.2 would take for anything but text."""


_Yaml12Dumper.yaml_implicit_resolvers = {}

_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("int", _INTEGER, "-+0123456789"),
    ("float", _FLOAT, "-+0123456789."),
    ("bool", _BOOLEAN, "tTfF"),
    ("null", _NULL, ["~", "n", "N", ""]),
):
    for _words in (_Loader, _Dumper, _Yaml12Dumper):
        _words.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, list(_first))
