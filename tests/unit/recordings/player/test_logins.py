"""A password that the site does not accept ends the item as `credential` after one try (A4): sites lock accounts after
a few wrong ones. A session that has ended, and a form that was never sent, are something else."""

from typing import Any

import pytest

from swath.domain.errors import Failed
from swath.domain.failure import RULES, FailureKind
from tests.unit.fetch.browser.visited_site import html
from tests.unit.recordings.player.playing import Played

pytestmark = [pytest.mark.req("A4", "H2"), pytest.mark.asyncio(loop_scope="module")]

FORM = """<form action=/in method=post><input id=u name=u><input id=p name=p type=password>
<label><input id=stay type=checkbox> Stay</label><button id=go>Log in</button></form>"""
LOGIN = f"<title>County</title><h1>Welcome</h1>{FORM}"
TYPE = [{"do": "type", "on": "#u", "text": "clerk"}, {"do": "type", "on": "#p", "text": "wrong"}]
SEND = {"do": "click", "on": "#go", "navigates": True}
MENU = {"do": "click", "on": "#menu", "timeout_seconds": 0.5}


async def ended(played: Played, *steps: dict[str, Any]) -> FailureKind:
    with pytest.raises(Failed) as failed:
        await played.on(LOGIN, *steps)
    return failed.value.failure.kind


@pytest.mark.parametrize(
    "answer",
    [
        html(f"<h1>Welcome</h1><p>Try again</p>{FORM}"),
        html("<h1>County</h1><p>The user name or password is incorrect.</p><a href=/>Back</a>"),
        html(f"<h1>Welcome</h1>{FORM}", status="401 Unauthorized"),
        html("<h1>No</h1><p>Invalid credentials</p>", status="403 Forbidden"),
    ],
    ids=["asks again", "says so", "401", "403"],
)
async def test_a_password_that_is_not_accepted_is_a_credential(played: Played, answer: bytes) -> None:
    played.site.answers["/in"] = answer
    assert await ended(played, *TYPE, SEND, MENU) is FailureKind.CREDENTIAL
    assert not RULES[FailureKind.CREDENTIAL].retryable
    assert played.site.paths().count("/in") == 1


async def test_a_password_that_a_script_sends_is_one_too(played: Played) -> None:
    script = f"""<h1>W</h1>{FORM}<p id=told></p><script>document.forms[0].onsubmit = event => {{
event.preventDefault(); setTimeout(() => told.textContent = 'Login failed', 200); }}</script>"""
    with pytest.raises(Failed, match="did not accept the password") as failed:
        await played.on(
            script, *TYPE, {"do": "press", "key": "Enter"}, {"do": "wait_for", "on": "#menu", "timeout_seconds": 1}
        )
    assert failed.value.failure.kind is FailureKind.CREDENTIAL
    assert failed.value.failure.message.startswith("step 5 (wait for #menu): ")


async def test_a_recording_that_ends_with_its_login_does_not_succeed_with_a_wrong_one(played: Played) -> None:
    played.shows("/in", f"<h1>W</h1><p>Wrong password.</p>{FORM}")
    assert await ended(played, *TYPE, SEND) is FailureKind.CREDENTIAL


STAYS = f"""<h1>W</h1>{FORM}<script>let sent = 0; document.forms[0].onsubmit = event => {{
event.preventDefault(); sent += 1; fetch('/in?' + sent); }}</script>"""


@pytest.mark.parametrize(
    "steps",
    [[], [{**MENU, "optional": True}], [{"do": "press", "key": "Tab"}]],
    ids=["nothing", "what may be missing", "a key"],
)
async def test_a_form_that_stays_when_nothing_else_is_found_has_refused_it(played: Played, steps: list[Any]) -> None:
    with pytest.raises(Failed) as failed:
        await played.on(STAYS, *TYPE, {"do": "click", "on": "#go"}, *steps)
    assert failed.value.failure.kind is FailureKind.CREDENTIAL


async def test_a_form_that_goes_after_a_while_has_accepted_it(played: Played) -> None:
    goes = STAYS.replace("sent += 1;", "setTimeout(() => document.body.textContent = 'Welcome', 300);")
    await played.on(goes, *TYPE, {"do": "click", "on": "#go"})


async def test_a_page_that_always_shows_a_form_and_goes_on_has_accepted_it(played: Played) -> None:
    played.shows("/in", f"<h1>Inside</h1>{FORM}<a id=menu>m</a><p id=told>30 bills</p>")
    await played.on(LOGIN, *TYPE, SEND, MENU, {"do": "extract", "field": "told", "on": "#told"})


async def test_a_navigation_that_does_not_come_of_a_login_is_a_refused_password(played: Played) -> None:
    with pytest.raises(Failed) as failed:
        await played.on(STAYS, *TYPE, SEND, step_seconds=0.5)
    assert failed.value.failure.kind is FailureKind.CREDENTIAL


AGAIN: list[dict[str, Any]] = [*TYPE, {"do": "click", "on": "#go"}]


@pytest.mark.parametrize(
    ("steps", "rules"),
    [
        ([{"do": "try", "steps": [*AGAIN, MENU], "else": [*AGAIN, MENU]}], {}),
        ([{"do": "repeat_until", "condition": {"on": "#menu"}, "most": 3, "steps": AGAIN}], {}),
        ([*AGAIN, MENU], {"recover": [{"when": {"on": "#go"}, "steps": AGAIN, "times": 3}]}),
    ],
    ids=["else", "loop", "rule"],
)
async def test_a_password_that_was_refused_is_not_sent_again_by_the_same_play(
    played: Played, steps: list[Any], rules: dict[str, Any]
) -> None:
    played.site.answers["/in"] = html("no")
    with pytest.raises(Failed) as failed:
        await played.on(STAYS, *steps, **rules)
    assert failed.value.failure.kind is FailureKind.CREDENTIAL
    assert [path for path in played.site.paths() if path.startswith("/in")] == ["/in?1"]


async def test_another_code_on_the_next_page_is_typed(played: Played) -> None:
    played.shows("/in", "<h1>Code</h1><form action=/code method=post><input id=c name=c type=password></form>")
    played.shows("/code", "<h1>Inside</h1><a id=menu>m</a>")
    code: list[dict[str, Any]] = [
        {"do": "type", "on": "#c", "text": "4711"},
        {"do": "press", "key": "Enter", "navigates": True},
    ]
    await played.on(LOGIN, *TYPE, SEND, *code, MENU)


async def test_a_form_that_was_never_sent_says_nothing_of_the_password(played: Played) -> None:
    missing = {"do": "click", "on": "#none", "timeout_seconds": 0.3}
    assert await ended(played, *TYPE, {"do": "click", "on": "#stay"}, missing) is not FailureKind.CREDENTIAL
    over = "<div style='position:fixed;inset:0'></div>"
    covered = {"do": "click", "on": "#go", "timeout_seconds": 0.3}
    with pytest.raises(Failed) as failed:
        await played.on(LOGIN + over, *TYPE, covered)
    assert failed.value.failure.kind is not FailureKind.CREDENTIAL


async def test_a_session_that_ends_later_is_no_wrong_password(played: Played) -> None:
    played.shows("/in", "<h1>Inside</h1><a id=menu href=/page>m</a>")
    login = "<title>Log in</title><h1>Log in</h1>" + FORM
    with pytest.raises(Failed) as failed:
        await played.on(
            login, *TYPE, SEND, {**MENU, "navigates": True}, {"do": "click", "on": "#x", "timeout_seconds": 0.3}
        )
    assert failed.value.failure.kind is FailureKind.SESSION_EXPIRED


async def test_a_page_that_fails_inside_is_what_it_was(played: Played) -> None:
    played.shows("/in", "<h1>Inside</h1><p>Password rules: 8 characters</p>")
    assert await ended(played, *TYPE, SEND, MENU) is FailureKind.ACTION_FAILED
    played.site.answers["/in"] = html("<h1>Down</h1>", status="500 Oops")
    assert await ended(played, *TYPE, SEND, MENU) is FailureKind.SERVER_ERROR
