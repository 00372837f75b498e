"""Which step comes next (A1, A4): conditions, loops, tries, retries, recovery, records that do not exist, and what is
left behind when it goes wrong."""

import json
import time

import pytest

from swath.domain.errors import Failed, NotFound
from swath.domain.failure import FailureKind
from swath.domain.site_policy import SitePolicy
from swath.recordings.player import step_runner
from tests.support.bounds import HANGING_SECONDS
from tests.unit.recordings.player.playing import Played

pytestmark = [pytest.mark.req("A1", "A4"), pytest.mark.asyncio(loop_scope="module")]

COUNT = "<h1>C</h1><button id=b onclick='p.textContent++'>+</button><p id=p>0</p>"
CLICK = {"do": "click", "on": "#b"}


async def test_conditions(played: Played) -> None:
    then = {"do": "type", "on": "#t", "text": "then"}
    other = {"do": "type", "on": "#t", "text": "else"}
    body = "<h1>Hello  World</h1><input id=t><p id=h hidden>no</p>"
    cases = [
        ({"on": "#t"}, "then"),
        ({"on": "#h"}, "else"),
        ({"on": "#h", "state": "hidden"}, "then"),
        ({"text": "hello world"}, "then"),
        ({"text": "absent"}, "else"),
        ({"text": "absent", "not": True}, "then"),
        ({"on": "h1", "text": "World"}, "then"),
        ({"on": "#t", "text": "World"}, "else"),
        ({"url": "/pa*e"}, "then"),
        ({"url": "/other"}, "else"),
        ({"value": "{{ input.kind }}", "equals": "house"}, "then"),
        ({"value": "{{ input.none }}"}, "else"),
        ({"on": "#t", "target": "http://site.example/nowhere"}, "else"),
    ]
    for condition, written in cases:
        step = {"do": "if", "condition": condition, "then": [then], "else": [other]}
        await played.on(body, step, given={"kind": "house", "none": ""})
        assert (condition, await played.browser.evaluate("t.value")) == (condition, written)
    assert played.times[-1].place == "2.else.1"


async def test_loops_over_values_and_elements(played: Played) -> None:
    body = "<h1>L</h1><ul><li>a<li>b<li>c</ul><input id=t>"
    step = {
        "do": "for_each",
        "values": ["x", "{{ input.y }}"],
        "steps": [{"do": "type", "on": "#t", "text": "{{ loop.value }}"}],
    }
    await played.on(body, step, given={"y": "why"})
    assert await played.browser.evaluate("t.value") == "why"
    inner = {"do": "click", "on": "li:nth-child({{ loop.index }})"}
    told = "<script>document.onclick = e => t.value += e.target.textContent</script>"
    await played.on(body + told, {"do": "for_each", "on": "li", "most": 2, "steps": [inner]})
    assert await played.browser.evaluate("t.value") == "ab"
    assert [time.turns for time in played.times[-2:]] == [(1,), (2,)]


async def test_repeat_until(played: Played) -> None:
    step = {"do": "repeat_until", "condition": {"on": "#p", "text": "3"}, "steps": [CLICK], "most": 5}
    await played.on(COUNT, step)
    assert await played.text("#p") == "3"
    with pytest.raises(Failed, match=r"step 2 \(repeat until\): what it waits for did not come true in 2 turns"):
        await played.on(COUNT, {**step, "most": 2})


async def test_no_item_takes_more_steps_than_there_may_be(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_runner, "_MOST_STEPS", 10)
    step = {"do": "repeat_until", "condition": {"text": "never"}, "steps": [CLICK], "most": 1_000}
    with pytest.raises(Failed, match="more than 10 steps") as failed:
        await played.on(COUNT, step)
    assert failed.value.failure.kind is FailureKind.ACTION_FAILED


async def test_what_fails_in_try_is_done_otherwise(played: Played) -> None:
    missing = {"do": "click", "on": "#none", "timeout_seconds": 0.2}
    await played.on(COUNT, {"do": "try", "steps": [missing, CLICK], "else": [CLICK, CLICK]})
    assert await played.text("#p") == "2"
    await played.on(COUNT, {"do": "try", "steps": [CLICK], "else": [CLICK, CLICK]})
    assert await played.text("#p") == "1"


async def test_optional_steps_are_passed_over(played: Played) -> None:
    await played.on(COUNT, {"do": "click", "on": "#none", "timeout_seconds": 0.2, "optional": True}, CLICK)
    assert await played.text("#p") == "1"
    assert played.outcomes == ["done", "passed_over", "done"]


async def test_a_wall_is_passed_over_by_nothing(played: Played) -> None:
    played.site.answers["/wall"] = b"HTTP/1.1 403 No\r\nContent-Length: 2\r\nContent-Type: text/html\r\n\r\nno"
    steps = [{"do": "goto", "url": "/wall", "optional": True, "retries": 3}]
    with pytest.raises(Failed, match=r"step 1\.steps\.1") as failed:
        await played.play({"do": "try", "steps": steps, "else": [{"do": "goto", "url": "/page"}]})
    assert failed.value.failure.kind is FailureKind.BLOCKED
    assert played.site.paths() == ["/wall"]


async def test_a_step_is_tried_again(played: Played) -> None:
    late = COUNT + "<script>b.hidden = true; setTimeout(() => b.hidden = false, 3000)</script>"
    await played.on(late, {**CLICK, "timeout_seconds": 2, "retries": 5})
    assert await played.text("#p") == "1"
    assert played.times[-1].tries > 1


SURVEY = """<h1>S</h1><button id=b onclick="p.textContent++">b</button><p id=p>0</p><div id=survey
style="position:fixed;inset:0;background:red"><button id=x onclick="survey.remove()">No thanks</button></div>"""


async def test_what_stands_in_the_way_is_cleared_and_the_step_done(played: Played) -> None:
    rule = {"when": {"on": "#survey"}, "steps": [{"do": "click", "on": "#x"}]}
    await played.on(SURVEY, {**CLICK, "timeout_seconds": 5}, recover=[rule])
    assert await played.text("#p") == "1"
    assert [time.place for time in played.times] == ["1", "recover.1.steps.1", "2"]


async def test_a_rule_that_does_not_help_is_not_followed_for_ever(played: Played) -> None:
    rule = {"when": {"text": "C"}, "steps": [{"do": "hover", "on": "h1"}], "times": 2}
    with pytest.raises(Failed, match=r"step 2 \(click #none\)"):
        await played.on(COUNT, {"do": "click", "on": "#none", "timeout_seconds": 0.2}, recover=[rule])
    assert [time.place for time in played.times].count("recover.1.steps.1") == 2


async def test_what_a_page_says_of_a_record_is_told_with_the_items_value(played: Played) -> None:
    with pytest.raises(NotFound, match="says so: no parcel 7"):
        await played.on(
            "<h1>Q</h1><p>No parcel 7</p>",
            {"do": "click", "on": "#x"},
            not_found=[{"text": "no parcel {{ input.n }}"}],
            given={"n": 7},
        )


async def test_a_record_that_does_not_exist_is_known_at_once(played: Played) -> None:
    body = "<h1>Q</h1><div id=d></div><script>setTimeout(() => d.textContent = 'No parcel  found', 200)</script>"
    began = time.monotonic()
    with pytest.raises(NotFound, match="no parcel found"):
        await played.on(
            body,
            {"do": "click", "on": ["aria/Details", "#x"], "timeout_seconds": 600},
            not_found=[{"text": "no parcel found"}],
        )
    assert time.monotonic() - began < HANGING_SECONDS
    assert played.browser.pages["html"].text_of("#d") == "No parcel found"
    hidden = "<h1>Q</h1><p hidden>No parcel found</p>"
    with pytest.raises(Failed, match="action_failed"):
        await played.on(hidden, {"do": "click", "on": "#x", "timeout_seconds": 0.3}, not_found=[{"text": "no parcel"}])


async def test_stop(played: Played) -> None:
    await played.on(COUNT, CLICK, {"do": "stop"}, CLICK)
    assert await played.text("#p") == "1"
    with pytest.raises(NotFound, match="none of 7"):
        await played.play({"do": "stop", "outcome": "not_found", "message": "none of {{ input.n }}"}, given={"n": 7})
    with pytest.raises(Failed, match=r"step 1 \(stop\): gave up") as failed:
        await played.play({"do": "stop", "outcome": "failed", "message": "gave up"})
    assert failed.value.failure.kind is FailureKind.ACTION_FAILED


async def test_an_input_that_does_not_fit_is_the_inputs_fault(played: Played) -> None:
    with pytest.raises(Failed, match=r"step 2 .*has 1 parts") as failed:
        await played.on(
            "<h1>I</h1><input id=t>",
            {"do": "type", "on": "#t", "text": '{{ input.n | split("-", 1) }}'},
            given={"n": "12"},
        )
    assert failed.value.failure.kind is FailureKind.INVALID_INPUT


async def test_a_failure_leaves_the_page_as_it_stood_and_the_times_of_its_steps(played: Played) -> None:
    step = {"do": "click", "on": ["aria/Search", "#no"], "timeout_seconds": 0.3, "name": "Search it"}
    with pytest.raises(Failed, match=r"step 3 \(Search it\)"):
        await played.on("<h1>F</h1><input id=t>", {"do": "type", "on": "#t", "text": "seen"}, step, watched=False)
    refused = played.browser.refused
    assert refused is not None
    assert b'value="seen"' in refused.body
    (kept,) = [one for one in played.browser.downloads if one.name == "steps.json"]
    told = json.loads(kept.page.body)
    assert [(one["place"], one["outcome"]) for one in told] == [("1", "done"), ("2", "done"), ("3", "failed")]
    assert told[1]["selector"] == "#t"
    assert told[2]["seconds"] >= 0.3


LOGIN = "<title>Log in</title><h1>Log in</h1><form><input id=u><input id=p type=password><button>Log in</button></form>"


async def test_a_recording_may_log_in_but_one_that_is_stopped_by_a_login_says_so(played: Played) -> None:
    await played.on(LOGIN, {"do": "type", "on": "#u", "text": "me"}, {"do": "type", "on": "#p", "text": "hush"})
    assert await played.browser.evaluate("p.value") == "hush"
    with pytest.raises(Failed, match=r"step 2 \(click #parcel\).*says “log in”") as failed:
        await played.on(LOGIN, {"do": "click", "on": "#parcel", "timeout_seconds": 0.3})
    assert failed.value.failure.kind is FailureKind.SESSION_EXPIRED


async def test_success_leaves_no_times_unless_somebody_watches(played: Played) -> None:
    await played.on("<h1>F</h1>", watched=False)
    assert [one.name for one in played.browser.downloads] == []
    assert list(played.browser.pages) == ["html"]
    await played.on("<h1>F</h1>")
    assert [one.name for one in played.browser.downloads] == ["steps.json"]


async def test_steps_pause_as_the_sites_policy_says(played: Played) -> None:
    played.gate._policy = SitePolicy(action_delay_ms=(300, 300))
    await played.on(COUNT, CLICK, CLICK)
    assert all(time.seconds >= 0.28 for time in played.times[1:])
