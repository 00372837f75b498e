"""Z5: recordings that no person should have, and that somebody will give us: one line each, before anything runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from swath.domain.errors import BadInput
from swath.recordings.document import parse_recording, read_recording
from tests.support.bounds import RUNAWAY_CPU_SECONDS

pytestmark = pytest.mark.req("Z5", "A4", "A2")

HEAD = "swath_recording: 1\nid: flow\ninputs: {parcel: {}}\nsteps:\n"


def steps(*lines: str) -> str:
    return HEAD + "".join(f"- {line}\n" for line in lines)


def click(selector: str) -> str:
    return (
        steps("{do: click, on: " + repr(selector) + "}")
        if "'" not in selector
        else steps(f'{{do: click, on: "{selector}"}}')
    )


def nested(depth: int) -> str:
    inner = "{do: back}"
    for _ in range(depth - 1):
        inner = "{do: try, steps: [" + inner + "]}"
    return steps(inner)


# name → (the file's name, what it holds, what the message must say)
CORPUS: dict[str, tuple[str, Callable[[], str | bytes], list[str]]] = {
    "empty": ("flow.yaml", lambda: "", ["is empty"]),
    "empty JSON": ("flow.json", lambda: " \n", ["is empty"]),
    "truncated JSON": ("flow.json", lambda: '{"swath_recording": 1, "steps": [{"do": ', ["line 1", "JSON"]),
    "truncated YAML": ("flow.yaml", lambda: 'id: "flow\nsteps: [', ["line"]),
    "a list": ("flow.json", lambda: "[]", ["is no mapping"]),
    "a number": ("flow.json", lambda: "7", ["is no mapping"]),
    "NaN": ("flow.json", lambda: '{"step_seconds": NaN}', ["NaN"]),
    "Infinity": ("flow.json", lambda: '{"step_seconds": -Infinity}', ["-Infinity"]),
    "1e999": ("flow.json", lambda: '{"step_seconds": 1e999}', ["step_seconds", "finite"]),
    "1e999 in YAML": ("flow.yaml", lambda: "step_seconds: 1e999", ["step_seconds", "finite"]),
    "a number of 10,000 digits": ("flow.json", lambda: '{"step_seconds": ' + "9" * 10_000 + "}", ["digits"]),
    "the same key twice": ("flow.json", lambda: '{"id": "a", "id": "b"}', ["'id'", "twice"]),
    "the same key twice in YAML": ("flow.yaml", lambda: "id: a\nid: b\n", ["line 2", "'id'", "twice"]),
    "half a character": ("flow.json", lambda: '{"id": "\\ud800"}', ["id", "half a character"]),
    "half a character in YAML": ("flow.yaml", lambda: 'id: "\\ud800"', ["half a character"]),
    "half a character in a key": ("flow.json", lambda: '{"\\ud800": 1}', ["half a character"]),
    "NUL": ("flow.yaml", lambda: "id: a\nname: \0\n", ["line 2", "NUL"]),
    "NUL, escaped": ("flow.json", lambda: '{"id": "a\\u0000"}', ["id", "NUL"]),
    "bell": ("flow.yaml", lambda: "id: a\nname: \a\n", ["line 2", "U+0007"]),
    "byte order mark": ("flow.json", lambda: b"\xef\xbb\xbf{}", ["byte order mark"]),
    "UTF-16": ("flow.yaml", lambda: "id: a".encode("utf-16"), ["UTF-16", "UTF-8"]),
    "UTF-16 without a mark": ("flow.yaml", lambda: "id: a".encode("utf-16-le"), ["NUL"]),
    "latin-1": ("flow.yaml", lambda: "id: a\nname: é".encode("latin-1"), ["line 2", "UTF-8"]),
    "too large": ("flow.yaml", lambda: "#" * (1 << 20) + "\n", ["1 MiB"]),
    "10⁶ keys": (
        "flow.json",
        lambda: "{" + ",".join(f'"{n}":1' for n in range(80_000)) + "}",
        ["is not known", "more"],
    ),
    "very many values in YAML": ("flow.yaml", lambda: "steps: [" + "a," * 500_000 + "]", ["more than 50,000 values"]),
    "depth 10⁴": ("flow.json", lambda: '{"a":' * 10_000 + "1" + "}" * 10_000, ["deeper than 32"]),
    "depth 33": ("flow.json", lambda: '{"a":' * 34 + "1" + "}" * 34, ["deeper than 32"]),
    "depth 10⁴ in YAML": ("flow.yaml", lambda: "a: " + "[" * 10_000, ["deeper than 32"]),
    "an alias bomb": ("flow.yaml", lambda: "a: &a [x]\nb: &b [*a, *a]\n", ["line 2", "aliases"]),
    "a Python object": ("flow.yaml", lambda: "id: !!python/object/apply:os.system [ls]", ["line 1", "constructor"]),
    "a date by its tag": ("flow.yaml", lambda: "id: !!timestamp 2026-01-01", ["id", "write it in quotes"]),
    "bytes by their tag": ("flow.yaml", lambda: "id: !!binary aGk=", ["id", "write it in quotes"]),
    "a name that is a number": ("flow.yaml", lambda: "1: a", ["the name 1 is no text"]),
    "another version": ("flow.yaml", lambda: "swath_recording: 2\nid: a\nsteps: [{do: back}]", ["must be 1"]),
    "true for 1": ("flow.yaml", lambda: "swath_recording: true\nid: a\nsteps: [{do: back}]", ["must be 1"]),
    "Chrome's own": (
        "flow.json",
        lambda: '{"title": "a", "steps": [{"type": "navigate", "url": "https://a.example/"}]}',
        ["swath recording import"],
    ),
    "a number for a mapping": (
        "flow.yaml",
        lambda: HEAD.replace("{parcel: {}}", "5") + "- {do: back}",
        ["inputs", "mapping"],
    ),
    "no steps": ("flow.yaml", lambda: "swath_recording: 1\nid: a\nsteps: []", ["steps", "is empty"]),
    "an id with a slash": (
        "flow.yaml",
        lambda: "swath_recording: 1\nid: ../a\nsteps: [{do: back}]",
        ["id: must match"],
    ),
    "unknown action": ("flow.yaml", lambda: steps("{do: clik, on: a}"), ["step 1", "'clik'", "did you mean 'click'?"]),
    "unknown action, nothing near": ("flow.yaml", lambda: steps("{do: customStep}"), ["'customStep'", "goto, back"]),
    "no action": ("flow.yaml", lambda: steps("{on: a}"), ["step 1", "has no do"]),
    "an action that is true": ("flow.yaml", lambda: steps("{do: true}"), ["step 1", "there is no action"]),
    "a step that is text": ("flow.yaml", lambda: steps("click"), ["step 1", "is no step"]),
    "unknown field": ("flow.yaml", lambda: steps("{do: click, onn: a}"), ["step 1 (click): onn", "did you mean 'on'?"]),
    "unknown field, nothing near": (
        "flow.yaml",
        lambda: steps("{do: stop, zzz: a}"),
        ["zzz", "'outcome'", "'message'"],
    ),
    "unknown field far inside": (
        "flow.yaml",
        lambda: steps("{do: back}", "{do: if, condition: {text: a}, then: [{do: back}, {do: click, onn: a}]}"),
        ["step 2.then.2 (click): onn"],
    ),
    "the name in Python": (
        "flow.yaml",
        lambda: steps("{do: try, steps: [{do: back}], otherwise: []}"),
        ["otherwise", "'else'"],
    ),
    "huge selector": ("flow.yaml", lambda: click("a" * 5_000), ["step 1 (click): on", "more than 4,096 characters"]),
    "1,000 alternatives": (
        "flow.yaml",
        lambda: steps(f"{{do: click, on: [{'a,' * 1_000}]}}"),
        ["on", "more than 20 values"],
    ),
    "no selector": ("flow.yaml", lambda: steps("{do: click, on: []}"), ["on: is empty"]),
    "selector with a line break": ("flow.yaml", lambda: steps('{do: click, on: "a\\nb"}'), ["on", "line break"]),
    "selector that is no CSS": ("flow.yaml", lambda: click("a >> b"), ["on", "'a >> b' is no CSS selector"]),
    "another tool's selector": ("flow.yaml", lambda: click("text=Search"), ["on", "prefix"]),
    "XPath without its prefix": ("flow.yaml", lambda: click("//a"), ["on", "xpath/"]),
    "broken XPath": ("flow.yaml", lambda: click("xpath///a["), ["on", "is no XPath"]),
    "XPath bomb": ("flow.yaml", lambda: click("xpath/" + "//*" * 500), ["on", "searches the page 500 times"]),
    "nested XPath bomb": ("flow.yaml", lambda: click("xpath///*" + "[*" * 500 + "]" * 500), ["on", "nested 500 deep"]),
    "squared XPath bomb": ("flow.yaml", lambda: click("xpath///*[count(//*) > 1]"), ["on", "top of the page for each"]),
    "XPath in brackets": ("flow.yaml", lambda: click("xpath/" + "(" * 4_000), ["on", "is no XPath"]),
    "XPath that calls": ("flow.yaml", lambda: click("xpath/document(a)"), ["document()"]),
    "XPath of lxml": ("flow.yaml", lambda: click("xpath/re:test(a)"), ["re:test()"]),
    "XPath with a variable": ("flow.yaml", lambda: click("xpath///a[@b=$c]"), ["variable"]),
    "aria on a stored page": ("flow.yaml", lambda: steps("{do: extract, field: a, on: aria/A}"), ["aria", "browser"]),
    "timeout 0": ("flow.yaml", lambda: steps("{do: back, timeout_seconds: 0}"), ["timeout_seconds", "more than 0"]),
    "negative timeout": (
        "flow.yaml",
        lambda: steps("{do: back, timeout_seconds: -1}"),
        ["timeout_seconds", "more than 0"],
    ),
    "timeout ∞": ("flow.yaml", lambda: steps("{do: back, timeout_seconds: .inf}"), ["timeout_seconds", "number"]),
    "timeout of a week": ("flow.yaml", lambda: steps("{do: back, timeout_seconds: 604800}"), ["at most 600"]),
    "timeout in quotes": ("flow.yaml", lambda: steps("{do: back, timeout_seconds: '5'}"), ["must be a number"]),
    "retries 2⁶³": ("flow.yaml", lambda: steps(f"{{do: back, retries: {2**63}}}"), ["retries", "at most 10"]),
    "true for a number": ("flow.yaml", lambda: steps("{do: back, retries: true}"), ["retries", "whole number"]),
    "10⁵ steps": ("flow.yaml", lambda: "swath_recording: 1\nid: a\nsteps:\n" + "- {do: back}\n" * 100_000, ["1 MiB"]),
    "10⁴ steps": ("flow.json", lambda: _many(10_000), ["10,000 steps", "at most 200"]),
    "201 steps, most of them inside": (
        "flow.yaml",
        lambda: steps("{do: if, condition: {text: a}, then: [" + "{do: back}, " * 200 + "]}"),
        ["201 steps", "at most 200"],
    ),
    "steps nine deep": ("flow.yaml", lambda: nested(9), ["9 steps deep", "at most 8"]),
    "endless loop": (
        "flow.yaml",
        lambda: steps("{do: repeat_until, most: 1000000000, condition: {text: a}, steps: [{do: back}]}"),
        ["most", "at most 1000"],
    ),
    "JavaScript": ("flow.yaml", lambda: steps("{do: javascript, code: '1'}"), ["step 1", "SWATH_ALLOW_JAVASCRIPT"]),
    "JavaScript, waited for, inside": (
        "flow.yaml",
        lambda: steps("{do: try, steps: [{do: javascript, code: '1', until_true: true}]}"),
        ["step 1.steps.1 (javascript)", "SWATH_ALLOW_JAVASCRIPT"],
    ),
    "evaluate": ("flow.yaml", lambda: steps("{do: evaluate, code: '1'}"), ["no action 'evaluate'"]),
    "somebody else's secret": (
        "flow.yaml",
        lambda: steps("{do: type, on: a, text: '{{ credentials.other_tenant }}'}"),
        ["credentials", "'input', 'value', 'loop'"],
    ),
    "upload of /etc/passwd": (
        "flow.yaml",
        lambda: steps("{do: upload, on: a, file: /etc/passwd}"),
        ["plain file name"],
    ),
    "upload out of the folder": ("flow.yaml", lambda: steps("{do: upload, on: a, file: ../a}"), ["plain file name"]),
    "upload of the folder above": ("flow.yaml", lambda: steps("{do: upload, on: a, file: ..}"), ["plain file name"]),
    "upload as on Windows": ("flow.yaml", lambda: steps("{do: upload, on: a, file: 'C:\\a'}"), ["plain file name"]),
    "upload through a template": (
        "flow.yaml",
        lambda: steps("{do: upload, on: a, file: '../{{ input.parcel }}'}"),
        ["plain file name"],
    ),
    "unknown key": ("flow.yaml", lambda: steps("{do: press, key: entr}"), ["key", "did you mean 'Enter'?"]),
    "keys that are held together": (
        "flow.yaml",
        lambda: steps("{do: press, key: Control+a, how: down}"),
        ["Control+a"],
    ),
    "pattern without end": (
        "flow.yaml",
        lambda: "swath_recording: 1\nid: a\ninputs: {p: {pattern: '(a+)+'}}\nsteps: [{do: back}]",
        ["inputs.p.pattern", "for ever"],
    ),
    "broken pattern": (
        "flow.yaml",
        lambda: "swath_recording: 1\nid: a\ninputs: {p: {pattern: '('}}\nsteps: [{do: back}]",
        ["inputs.p.pattern", "no regular expression"],
    ),
    "base_url that is a file": (
        "flow.yaml",
        lambda: HEAD.replace("steps", "base_url: file:///a\nsteps") + "- {do: back}",
        ["base_url", "http"],
    ),
}


def _many(count: int) -> str:
    import json

    return json.dumps({"swath_recording": 1, "id": "a", "steps": [{"do": "back"}] * count})


def one_line(refused: pytest.ExceptionInfo[BadInput], name: str) -> str:
    message = str(refused.value)
    assert message.isprintable()
    assert len(message) < 1_000, "a line that nobody can read"
    assert message.startswith(f"{name}: ")
    return message


@pytest.mark.parametrize("name", CORPUS)
def test_a_recording_that_cannot_be_used_costs_one_line(name: str, tmp_path: Path) -> None:
    file_name, make, expected = CORPUS[name]
    made = make()
    path = tmp_path / file_name
    path.write_bytes(made if isinstance(made, bytes) else made.encode())
    began = time.process_time()
    with pytest.raises(BadInput) as refused:
        read_recording(path)
    message = one_line(refused, str(path))
    assert all(part in message for part in expected), message
    assert time.process_time() - began < RUNAWAY_CPU_SECONDS, "what is refused is not worth so long a look"


# The family of fault-tests.md 4.4; where a host may lead to is for the guard of all requests to say.
URLS = [
    *(
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        " javascript:alert(1)",
        "java\\tscript:alert(1)",
        "data:text/html,x",
    ),
    *("file:///etc/passwd", "view-source:file:///etc/passwd", "view-source:https://a.example/", "chrome://settings"),
    *("blob:https://a.example/1", "ws://a.example/", "wss://a.example/", "ftp://a.example/", "about:blank"),
    *("//a.example/x", "a.example/x", "/x", "#top", "?q=1", "https://", "http:///", "https://user@a.example/"),
    *("https://user:pass@a.example/", "https://a.example:65536/", "https://a.example:port/", "https://a b.example/"),
    *("https://[::1", "https://[fe80::1%25eth0]/", "http://127.0.0.1:6666\\\\@1.1.1.1", "https:\\\\\\\\a.example\\\\"),
    *("https://a.example/\\tx", "https://a.example/\\nx", "https://a.exa\\nmple/", "https://%00/", "https://a..b/"),
    *(
        f"https://{'a' * 64}.example/",
        f"https://a.example/{'a' * 32_760}",
        "https://\\u202ea.example/",
        "mailto:a@b.example",
    ),
    *("javascript:{{ input.parcel }}", "file:///{{ input.parcel }}", "https://{{ input.parcel }}@a.example/"),
]


@pytest.mark.parametrize("url", URLS, ids=lambda url: url[:40])
@pytest.mark.parametrize("action", ["{do: goto, url: %s}", "{do: download, file: a.pdf, url: %s}"])
def test_no_bad_address_is_opened(action: str, url: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_recording(steps(action % f'"{url}"'), "flow.yaml")
    assert "url" in one_line(refused, "flow.yaml")


@pytest.mark.parametrize(
    "url",
    ["https://a.example/{{ input.parcel }}", "{{ input.parcel }}", "http://ü.example/", "HTTPS://A.example:8443/x#y"],
)
def test_good_addresses_pass(url: str) -> None:
    parse_recording(steps(f'{{do: goto, url: "{url}"}}'), "flow.yaml")


@pytest.mark.parametrize(
    ("url", "fits"),
    [("/x", True), ("x?{{ input.parcel }}", True), ("//b.example/", False), ("file:///x", False), ("https:x", True)],
)
def test_relative_addresses_need_a_base(url: str, fits: bool) -> None:
    text = steps(f'{{do: goto, url: "{url}"}}').replace("steps:", "base_url: https://a.example/\nsteps:")
    if fits:
        parse_recording(text, "flow.yaml")
    else:
        with pytest.raises(BadInput, match="url"):
            parse_recording(text, "flow.yaml")


def test_what_looks_like_a_variable_elsewhere_stays_text() -> None:
    recording = parse_recording(steps("{do: type, on: a, text: '{{7*7}} ${x} {x} {{ }} {% if %} #{y}'}"), "flow.yaml")
    assert recording.steps[0].text == "{{7*7}} ${x} {x} {{ }} {% if %} #{y}"  # type: ignore[union-attr] # it is `type`


def test_javascript_runs_when_the_operator_says_so() -> None:
    parse_recording(steps("{do: javascript, code: '1'}"), "flow.yaml", javascript=True)


def test_files_that_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    cases = {
        tmp_path / "pipe.yaml": "pipe or a device",
        tmp_path / "folder.yaml": "is a directory",
        tmp_path / "loop.yaml": "",
        tmp_path / "none.yaml": "no such file",
        tmp_path / ("a" * 300): "cannot be read",
        Path("/dev/zero"): "pipe or a device",
    }
    for path, said in cases.items():
        with pytest.raises(BadInput) as refused:
            read_recording(path)
        assert said in one_line(refused, str(path))
    with pytest.raises(BadInput, match="not the name of a file"):
        read_recording("a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.touch(mode=0)
    with pytest.raises(BadInput, match="may not be read"):
        read_recording(path)


def test_several_mistakes_are_told_at_once() -> None:
    text = steps(*["{do: clik}"] * 5)
    with pytest.raises(BadInput) as refused:
        parse_recording(text, "flow.yaml")
    message = one_line(refused, "flow.yaml")
    assert "step 3" in message
    assert "step 4" not in message
    assert message.endswith("and 2 more")
