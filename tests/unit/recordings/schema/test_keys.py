"""The keys of `press` are those that the browser's driver can press: one that it lacks would fail every item."""

import json
import re
from pathlib import Path

import pytest

from swath.recordings.schema.steps import KEYS, is_pressable

pytestmark = pytest.mark.req("A1")


def test_the_keys_are_those_of_the_driver() -> None:
    driver = pytest.importorskip("patchright")
    bundle = (Path(driver.__file__).parent / "driver/package/lib/coreBundle.js").read_text(encoding="utf-8")
    table = bundle[bundle.index("USKeyboardLayout = {") :].partition("};")[0]
    known = {"Shift", "Control", "Alt", "Meta", "ControlOrMeta", "\n", "\r"}  # its aliases
    for code, rest in re.findall(r'^\s*"(\w+)": \{(.*)\}', table, re.MULTILINE):
        known.add(code)
        if '"location"' in rest:
            continue
        for text in re.findall(r'"(?:key|shiftKey)": ("(?:\\.|[^"\\])"|\'"\')', rest):
            known.add('"' if text == "'\"'" else json.loads(text))
    assert known == KEYS


@pytest.mark.parametrize("key", ["Enter", "a", "A", "+", "Control+a", "Control+Shift+ArrowLeft", "Control++", " "])
def test_keys_alone_and_together(key: str) -> None:
    assert is_pressable(key, held=False)


@pytest.mark.parametrize("key", ["", "enter", "Enter+a", "Control+", "a+b", "++", "F13", "ab"])
def test_what_is_no_key(key: str) -> None:
    assert not is_pressable(key, held=False)


@pytest.mark.parametrize(("key", "fits"), [("Shift", True), ("Control+a", False), ("+", True)])
def test_one_key_is_held_at_a_time(key: str, fits: bool) -> None:
    assert is_pressable(key, held=True) == fits
