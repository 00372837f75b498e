"""O1, Z7: a line is valid JSON with the fields its event needs, and no credential is ever in one."""

from __future__ import annotations

import base64
import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.failure import Failure, FailureKind
from swath.domain.item import Attempt, SuccessOutcome
from swath.domain.job import Job
from swath.domain.lease import LeasedItem
from swath.domain.result import Result
from swath.domain.secret import Secret
from swath.domain.service_key import Scope, new_key
from swath.domain.transitions import ItemState
from swath.observability import logs
from swath.observability.masking import MIN_SECRET_CHARACTERS, SecretMask
from swath.observability.task_context import ITEMS_LOGGER, serve_item, serve_request
from swath.pipeline.worker.attempt import AttemptResult, WorkerContext, WorkItem
from swath.pipeline.worker.attempt_log import log_attempt
from tests.support.clock import FakeClock
from tests.support.network import open_network
from tests.unit.fetch.http.sites import TableTransport
from tests.unit.pipeline.worker.test_attempt import TwoPages

pytestmark = pytest.mark.req("O1")

log = logging.getLogger("swath.test")
CANARY = "canary:P@ss/1 w+x"


class Lines(io.StringIO):
    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The log of the test run stays as it was."""
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, logging.getLogger(ITEMS_LOGGER).disabled
    mask, logs._mask = logs._mask, SecretMask()
    yield
    root.handlers[:], logs._mask = handlers, mask
    root.setLevel(level)
    logging.getLogger(ITEMS_LOGGER).disabled = disabled


def set_up(level: str = "DEBUG", form: str = "json", *secrets: str, items: bool = True) -> Lines:
    lines = Lines()
    logs.set_up_logging(level, form, [Secret(one) for one in secrets], stream=lines, items=items)
    return lines


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(object),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(message=st.text(), fields=st.dictionaries(st.from_regex(r"x_[a-z]{1,8}", fullmatch=True), values, max_size=4))
def test_every_line_is_one_line_of_valid_json(message: str, fields: dict[str, Any]) -> None:
    """Property 38."""
    lines = set_up()
    log.warning("%s", message, extra=fields)
    text = lines.getvalue()
    assert text.count("\n") == 1
    (line,) = lines.all()
    assert {"timestamp", "level", "request_id", "job_id", "item_id"} <= set(line)
    assert (line["level"], line["logger"]) == ("WARNING", "swath.test")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", line["timestamp"])
    assert set(fields) <= set(line)


def nan(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")


def test_numbers_that_json_does_not_know_are_text() -> None:
    lines = set_up()
    log.error("x", extra={"rate": float("nan"), "most": float("inf")})
    assert json.loads(lines.getvalue(), parse_constant=nan)["rate"] == "nan"


def test_a_line_says_whom_it_was_written_for() -> None:
    import contextvars

    lines = set_up()

    def request() -> None:
        serve_request("6f1c0d0e-6a6f-4a58-9a3a-0d6d4c1f7a01")
        log.info("a request")

    def item() -> None:
        serve_item("r1", "job", "item", 2)
        log.info("an attempt")

    for act in (request, item):
        contextvars.copy_context().run(act)
    log.info("nobody")
    asked, tried, nobody = lines.all()
    assert asked["request_id"] == "6f1c0d0e-6a6f-4a58-9a3a-0d6d4c1f7a01"
    assert (tried["request_id"], tried["job_id"], tried["item_id"], tried["attempt"]) == ("r1", "job", "item", 2)
    assert (nobody["request_id"], nobody["job_id"], nobody["item_id"]) == (None, None, None)


def test_libraries_write_into_the_same_pipe() -> None:
    lines = set_up("INFO")
    for name in ("uvicorn", "uvicorn.access", "uvicorn.error", "aiobotocore.x"):
        logging.getLogger(name).info("%s", "from a library")
    assert [line["logger"] for line in lines.all()] == ["uvicorn", "uvicorn.access", "uvicorn.error", "aiobotocore.x"]
    lines = set_up("DEBUG")
    logging.getLogger("botocore.auth").debug("the headers that are signed")
    assert lines.getvalue() == ""


def test_text_is_for_people_and_cannot_be_forged() -> None:
    lines = set_up("INFO", "text")
    log.info("first\n2026-01-01T00:00:00Z ERROR swath: forged \x1b[31m", extra={"rows": 3})
    (line,) = lines.getvalue().splitlines()
    assert re.match(r"\S+Z INFO swath\.test: first\\n2026", line)
    assert line.endswith(r"forged \x1b[31m rows=3")


def test_a_line_that_cannot_be_made_says_nothing_of_itself() -> None:
    lines = set_up()
    log.error("%d", CANARY)
    (line,) = lines.all()
    assert (line["logger"], line["event"]) == ("swath.test", "a line was lost")
    assert "canary" not in lines.getvalue()


# -- items -------------------------------------------------------------------------------------------------------------


def bench(request_id: str | None = None) -> WorkerContext:
    clock = FakeClock()
    job = Job(job_id="job", scraper_id="s", request_id=request_id)
    return WorkerContext(job, TwoPages(), open_network(TableTransport({}), clock), clock, "w")


def told(tried: AttemptResult, state: ItemState | None, attempts: int = 1) -> dict[str, Any]:
    lines = set_up("INFO")
    work = WorkItem(LeasedItem(1, "item-1", {"parcel": "canary-input"}))
    work.attempts = (tried.attempt,) * attempts
    log_attempt(bench(request_id="r1"), work, tried, state)
    (line,) = lines.all()
    assert "canary" not in lines.getvalue()
    assert (line["request_id"], line["job_id"], line["item_id"], line["attempt"]) == ("r1", "job", "item-1", attempts)
    return line


AT = Attempt(100.0, 100.25, "w", proxy_tier="datacenter")
URL = "https://county.example:8443/parcel?parcel=canary-query&k=1"


@settings(deadline=None)
@given(kind=st.sampled_from(FailureKind), attempts=st.integers(1, 5), again=st.booleans())
def test_a_failure_has_its_fields(kind: FailureKind, attempts: int, again: bool) -> None:
    """Property 38, for failures."""
    tried = AttemptResult(attempt=AT, failure=Failure.of(kind, "the page says canary-message"), url=URL)
    line = told(tried, None if again else ItemState.FAILED, attempts)
    assert line["level"] == ("INFO" if again else "ERROR")
    assert (line["target_url"], line["site"]) == ("https://county.example:8443/parcel", "county.example")
    assert (line["proxy_used"], line["error_reason"], line["retry_attempts"]) == ("datacenter", kind, attempts - 1)


@pytest.mark.parametrize(
    ("data", "filled", "share"),
    [
        ({"owner": "canary-owner", "year": 0, "note": None, "tags": []}, 2, 0.5),
        ([{"a": "canary-a"}, {"a": None}], 1, 0.5),
        (None, 0, None),
    ],
)
def test_a_completion_has_its_fields(data: Any, filled: int, share: float | None) -> None:
    """Property 38, for completions."""
    line = told(
        AttemptResult(attempt=AT, finding=SuccessOutcome.FOUND, result=Result(data=data), url=URL), ItemState.SUCCESS
    )
    assert (line["level"], line["event"]) == ("INFO", "item success")
    assert (line["target_domain"], line["duration_ms"]) == ("county.example", 250.0)
    assert (line["fields_extracted"], line["result_completeness"]) == (filled, share)


def test_people_who_watch_a_job_are_not_told_of_every_item() -> None:
    lines = set_up("INFO", items=False)
    log_attempt(bench(), WorkItem(LeasedItem(1, "i", {})), AttemptResult(attempt=AT), ItemState.SUCCESS)
    assert lines.getvalue() == ""


# -- secrets -----------------------------------------------------------------------------------------------------------

secrets = st.text(st.characters(codec="utf-8"), min_size=MIN_SECRET_CHARACTERS, max_size=40).filter(
    lambda text: len(text.strip("*")) > 3 and len(set(text)) > 2
)


def spellings(secret: str) -> Iterator[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield quote(raw, safe="")
    yield quote(raw, safe="/")
    yield quote_plus(raw)
    for code in (base64.b64encode, base64.urlsafe_b64encode):
        yield code(raw).decode().rstrip("=")
    yield json.dumps(secret)[1:-1]


@pytest.mark.req("Z7")
@settings(deadline=None)
@given(secret=secrets, before=st.text("abc:/", max_size=5), after=st.text("xyz,", max_size=5))
def test_no_spelling_of_a_secret_passes(secret: str, before: str, after: str) -> None:
    """Property 39."""
    mask = SecretMask([Secret(secret)])
    for spelling in spellings(secret):
        cleaned = mask.text(f"{before} {spelling} {after}")
        assert spelling not in cleaned, spelling
    whole = base64.b64encode(f"{before}{secret}{after}".encode("utf-8", "surrogatepass")).decode()
    cleaned = mask.text(whole)
    if len(secret.encode()) >= 8:  # of a shorter one there is too little that does not depend on its neighbours
        assert cleaned != whole


@pytest.mark.req("Z7")
def test_secrets_are_masked_in_every_field_and_traceback() -> None:
    """Property 39."""
    lines = set_up("DEBUG", "json", CANARY, "http://someone:canary-listed@proxy.example:1")
    basic = base64.b64encode(f"user:{CANARY}".encode()).decode()
    try:
        raise RuntimeError(f"cannot reach http://u:{quote(CANARY, safe='')}@h/ with {CANARY!r} and canary-listed")
    except RuntimeError:
        log.exception("failed with %s", CANARY, extra={"headers": {CANARY: [f"Basic {basic}"]}, "raw": CANARY.encode()})
    text = lines.getvalue()
    assert "canary" not in text
    assert quote("P@ss/1", safe="") not in text
    assert base64.b64encode(b"canary:P@ss").decode()[:8] not in text
    assert "RuntimeError: cannot reach" in text
    assert "********" in text


@pytest.mark.req("Z7", "I5")
def test_what_looks_like_a_credential_is_masked_whoever_made_it() -> None:
    lines = set_up()
    _, shown = new_key("k", (Scope.READ,), 0.0)
    whole = shown.reveal()
    log.info("%s", {"x-service-key": whole})
    log.info("GET /jobs?key=%s and http://someone:else@proxy:1/ Authorization: Bearer abc.def.ghi", whole)
    log.info("secret whsec_%s", base64.b64encode(b"0123456789abcdef").decode())
    text = lines.getvalue()
    for part in (whole, whole[-20:], "someone:else", "abc.def.ghi", "MDEyMzQ1"):
        assert part not in text
    assert whole.split("_")[1] in text, "which key it was may be known"


def test_a_text_without_secrets_stays_as_it_is() -> None:
    mask = SecretMask([Secret("canary")])
    told = "job test-001: 3 of 10 at https://county.example/parcels/1?x=y (user@example.com)"
    assert mask.text(told) == told
