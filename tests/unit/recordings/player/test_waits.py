"""`wait_for` in all its forms (A1)."""

from typing import Any

import pytest

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from tests.unit.recordings.player.playing import Played

pytestmark = [pytest.mark.req("A1"), pytest.mark.asyncio(loop_scope="module")]

BODY = """<h1>W</h1><ul id=u><li class=a data-n=1>one</ul><p id=gone>here</p><p id=hide>shown</p><input id=t value=x>
<script>setTimeout(() => { u.insertAdjacentHTML('beforeend', '<li class=a data-n=2>two<li>three<li hidden>four');
gone.remove(); hide.hidden = true; t.checked = true; t.value = 'late'; history.replaceState({}, '', '/page/late?x=1')
}, 300)</script>"""
COME: list[dict[str, Any]] = [
    {"on": "li:nth-child(2)"},
    {"on": "li", "count": 3, "compare": "=="},
    {"on": "li", "count": 4, "compare": "==", "state": "attached"},
    {"on": "li", "count": 3},
    {"on": "#none", "count": 0, "compare": "<="},
    {"on": ["#none", "li"], "count": 2},
    {"on": "li", "attributes": {"data-n": "{{ input.n }}"}},
    {"on": "#t", "properties": {"value": "late", "ownerDocument": {"contentType": "text/html"}}},
    {"on": "#gone", "state": "detached"},
    {"on": "#hide", "state": "hidden"},
    {"on": "#hide", "state": "hidden", "count": 1, "compare": "<="},
    {"on": "#none", "state": "hidden", "count": 0, "compare": "=="},
    {"text": "THREE"},
    {"text": "shown", "state": "hidden"},
    {"url": "/page/*x="},
    {"network_idle": True},
    {"seconds": 0.1},
]
NEVER: list[dict[str, Any]] = [
    {"on": "#none"},
    {"on": "li", "count": 1, "compare": "=="},
    {"on": "li[hidden]"},
    {"on": "#hide", "state": "detached"},
    {"on": "h1", "state": "hidden"},
    {"on": "h1", "state": "hidden", "count": 0, "compare": "=="},
    {"on": "#hide", "state": "hidden", "count": 2, "compare": "=="},
    {"on": "#t", "properties": {"value": "other"}},
    {"on": "li", "attributes": {"data-n": "3"}},
    {"text": "four"},
    {"url": "/never"},
]


async def test_what_comes_is_waited_for(played: Played) -> None:
    for wait in COME:
        await played.on(BODY, {"do": "wait_for", **wait}, given={"n": "2"})
        assert played.times[-1].outcome == "done", wait
        played.times.clear()


async def test_what_does_not_come_is_a_failed_action(played: Played) -> None:
    await played.on(BODY, {"do": "wait_for", "on": "li:nth-child(3)"})
    for wait in NEVER:
        with pytest.raises(Failed) as failed:
            await played.play({"do": "wait_for", "timeout_seconds": 0.3, **wait})
        assert (wait, failed.value.failure.kind) == (wait, FailureKind.ACTION_FAILED)
        assert played.times[-1].seconds >= 0.3
