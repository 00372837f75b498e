"""`repeat_until` in its natural form (A1): read, go on, until there is nothing to go on to. Every page is read, and the
last one too; a loop that reads nothing may have nothing to do."""

import asyncio
from functools import partial
from typing import Any

import pytest

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.recordings.extraction.record import read_record
from swath.recordings.schema.recording import Recording
from tests.unit.fetch.browser.visited_site import html
from tests.unit.recordings.player.playing import Played, recording

pytestmark = [pytest.mark.req("A1", "A4"), pytest.mark.asyncio(loop_scope="module")]

HEAD = "<h1>Bills</h1><p>Page <b id=at>{at}</b> of {of}</p>"
ROWS = "<table id=bills><tr><th>Year<th>Due</tr><tr><td>{at}1<td>10</tr><tr><td>{at}2<td>20</tr></table>"
TABLE = {"do": "extract", "field": "bills", "on": "#bills", "kind": "table", "columns": {"year": "Year", "due": "Due"}}
AT = {"do": "extract", "field": "at", "on": "#at", "type": "integer"}
NEXT = {"do": "click", "on": "#next"}
QUICK = {"timeout_seconds": 0.1}  # that what is not shown must stay so: these pages are whole when they come
NO_NEXT = {"on": "#next", "state": "hidden"}


def served(played: Played, pages: int, link: str = "<a id=next href='/bills?at={next}'>Next</a>") -> None:
    for at in range(1, pages + 1):
        more = "" if at == pages else link.format(next=at + 1)
        played.shows(f"/bills?at={at}", (HEAD + ROWS).format(at=at, of=pages) + more)


def flow(*steps: dict[str, Any], condition: dict[str, Any] = NO_NEXT, **loop: Any) -> list[dict[str, Any]]:
    repeat = {"do": "repeat_until", "condition": condition, "collect": "pages", "steps": list(steps), **QUICK, **loop}
    return [{"do": "goto", "url": "/bills?at=1"}, repeat]


async def years(played: Played, steps: list[dict[str, Any]], **about: Any) -> list[str]:
    await played.play(*steps, **about)
    record = read_record(recording(*steps), played.browser.pages)
    played.browser.pages.clear()
    return [row["year"] for page in record["pages"] for row in page["bills"]]


async def test_the_last_page_is_read(played: Played) -> None:
    served(played, 3)
    assert await years(played, flow(AT, TABLE, NEXT)) == ["11", "12", "21", "22", "31", "32"]
    assert await years(played, flow(AT, TABLE, NEXT, condition={"on": "#next", "not": True})) == [
        *["11", "12", "21", "22", "31", "32"]
    ]
    guarded = {"do": "if", "condition": {"on": "#next"}, "then": [NEXT]}
    assert await years(played, flow(TABLE, guarded)) == ["11", "12", "21", "22", "31", "32"]


async def test_a_table_of_one_page_has_nothing_to_go_on_to(played: Played) -> None:
    served(played, 1)
    assert await years(played, flow(TABLE, NEXT)) == ["11", "12"]


async def test_going_on_first_is_as_it_was(played: Played) -> None:
    served(played, 3)
    assert await years(played, flow(NEXT, TABLE)) == ["21", "22", "31", "32"]


async def test_a_next_that_scripts_draw_late_is_not_taken_for_the_end(played: Played) -> None:
    link = """<div id=foot></div><script>setTimeout(() =>
foot.innerHTML = "<a id=next href='/bills?at={next}'>Next</a>", 400)</script>"""
    served(played, 3, link)
    assert await years(played, flow(TABLE, NEXT, timeout_seconds=None)) == ["11", "12", "21", "22", "31", "32"]


SCRIPTED = """<h1>Bills</h1><p>Page <b id=at>1</b></p><table id=bills></table><button id=next>Next</button><script>
const show = at => {
  document.getElementById('at').textContent = at;
  bills.innerHTML = '<tr><th>Year<th>Due</tr>' + `<tr><td>${at}1<td>10</tr>`;
  next.disabled = at === 3;
};
let at = 1;
next.onclick = () => { at += 1; setTimeout(() => show(at), 300); };
show(1);
</script>"""


async def test_a_table_that_a_script_fills_is_waited_for(played: Played) -> None:
    played.shows("/bills?at=1", SCRIPTED)
    there = {"do": "wait_for", "on": "xpath///b[@id='at'][.='{{ loop.index }}']"}
    steps = flow(there, TABLE, NEXT, condition={"on": "#next:disabled"})
    assert await years(played, steps) == ["11", "21", "31"]


# Scripts answer a click on Next after a while, and take each click for one page more.
IN_PLACE = """<h1>Bills</h1><p>Paid: <b id=paid>no</b></p><table id=bills></table><div id=foot></div><script>
let at = 1;
const show = () => {
  bills.innerHTML = '<tr><th>Year<th>Due</tr>' + `<tr><td>${at}1<td>10</tr>`;
  foot.innerHTML = at < 4 ? '<button id=next>Next</button>' : '';
};
foot.onclick = () => { at += 1; setTimeout(show, 700); };
show();
</script>"""


@pytest.mark.parametrize("read", [[TABLE], [{**AT, "field": "paid", "on": "#paid", "type": "text"}, TABLE]])
async def test_rows_that_a_script_changes_in_place_are_waited_for(played: Played, read: list[dict[str, Any]]) -> None:
    played.shows("/bills?at=1", IN_PLACE)
    steps = flow(*read, NEXT, timeout_seconds=60)
    steps[1]["condition"] = {"on": "#bills td", "text": "41"}
    assert await years(played, steps) == ["11", "21", "31", "41"]


# A script asks the site for the next rows. Meanwhile the old ones stay, or they go, with or without Next.
ASKED_FOR = """<h1>Bills</h1><table id=bills></table><div id=foot></div><script>
const show = at => {
  bills.innerHTML = '<tr><th>Year<th>Due</tr>' + `<tr><td>${at}1<td>10</tr>`;
  foot.innerHTML = at < 3 ? '<button id=next>Next</button>' : '';
};
let at = 1;
foot.onclick = async () => { at += 1; {meanwhile}; show(+await (await fetch('/rows?at=' + at)).text()); };
show(1);
</script>"""
LATE_SECONDS = 1.0  # beyond the patience of QUICK


async def late(writer: asyncio.StreamWriter, text: str) -> None:
    await asyncio.sleep(LATE_SECONDS)
    writer.write(html(text, kind="text/plain"))


@pytest.mark.parametrize("meanwhile", ["", "foot.innerHTML = ''", "bills.innerHTML = foot.innerHTML = ''"])
async def test_rows_that_a_script_asks_for_are_waited_for_until_they_come(played: Played, meanwhile: str) -> None:
    played.shows("/bills?at=1", ASKED_FOR.replace("{meanwhile}", meanwhile))
    for at in (2, 3):
        played.site.answers[f"/rows?at={at}"] = partial(late, text=str(at))
    assert await years(played, flow(TABLE, NEXT)) == ["11", "21", "31"]


async def test_rows_that_do_not_come_are_a_failure_and_no_loss(played: Played) -> None:
    async def never(writer: asyncio.StreamWriter) -> None:
        del writer
        await asyncio.Event().wait()

    played.shows("/bills?at=1", ASKED_FOR.replace("{meanwhile}", "bills.innerHTML = foot.innerHTML = ''"))
    played.site.answers["/rows?at=2"] = never
    with pytest.raises(Failed, match=r"what a script of .* has asked for did not come in 1 s") as raised:
        await played.play(*flow(TABLE, NEXT), step_seconds=1)
    assert raised.value.failure.kind is FailureKind.TIMEOUT


async def test_events_that_come_for_ever_are_not_waited_for(played: Played) -> None:
    async def stream(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        await writer.drain()
        await asyncio.Event().wait()

    played.shows("/bills?at=1", ASKED_FOR.replace("{meanwhile}", "if (at === 2) fetch('/stream')"))
    played.site.answers["/stream"] = stream
    for at in (2, 3):
        played.site.answers[f"/rows?at={at}"] = html(str(at), kind="text/plain")
    assert await years(played, flow(TABLE, NEXT), step_seconds=2) == ["11", "21", "31"]


async def test_a_button_for_more_rows_is_clicked_until_all_are_there(played: Played) -> None:
    page = ASKED_FOR.replace("bills.innerHTML = '<tr><th>Year<th>Due</tr>' +", "bills.innerHTML +=")
    played.shows("/bills?at=1", page.replace("{meanwhile}", "foot.innerHTML = ''"))
    for at in (2, 3):
        played.site.answers[f"/rows?at={at}"] = partial(late, text=str(at))
    loop = {"do": "repeat_until", "condition": NO_NEXT, "steps": [NEXT], **QUICK}
    await played.play({"do": "goto", "url": "/bills?at=1"}, loop)
    assert "31" in await played.text("#bills")


async def test_rows_that_stay_as_they_are_are_not_waited_for_without_end(played: Played) -> None:
    count = "<p id=n>1</p><button id=next onclick='n.textContent = +n.textContent + 1'>Next</button>"
    played.shows("/bills?at=1", HEAD + ROWS.format(at=7) + count)
    steps = flow(TABLE, NEXT, condition={"on": "#n", "text": "3"})
    assert await years(played, steps) == ["71", "72"] * 3


async def test_more_pages_than_there_may_be_are_a_failure_and_no_loss(played: Played) -> None:
    served(played, 3)
    with pytest.raises(Failed, match="did not come true in 2 turns"):
        await played.play(*flow(TABLE, NEXT, most=2))
    assert await years(played, flow(TABLE, NEXT, most=3)) == ["11", "12", "21", "22", "31", "32"]


async def test_the_rows_of_all_pages_are_one_list(played: Played) -> None:
    served(played, 2)
    steps = flow(AT, TABLE, NEXT, flatten="bills", collect="rows")
    await played.play(*steps)
    made: Recording = recording(*steps)
    assert read_record(made, played.browser.pages) == {
        "rows": [
            {"at": 1, "year": "11", "due": "10"},
            {"at": 1, "year": "12", "due": "20"},
            {"at": 2, "year": "21", "due": "10"},
            {"at": 2, "year": "22", "due": "20"},
        ]
    }


CALENDAR = """<h1>D</h1><input id=day readonly><div><button id=on>&gt;</button><b id=month></b></div><script>
const names = ['March 2026', 'April 2026', 'May 2026'];
let at = 0;
const show = () => { month.textContent = names[at] || 'none'; };
document.getElementById('on').onclick = () => { at += 1; show(); };
show();
</script>"""


@pytest.mark.parametrize("month", ["March 2026", "May 2026"])
async def test_a_loop_that_only_goes_on_may_be_where_it_should_be(played: Played, month: str) -> None:
    turn = {"do": "repeat_until", "condition": {"on": "#month", "text": "{{ input.month }}"}, "most": 24}
    await played.on(CALENDAR, {**turn, "steps": [{"do": "click", "on": "#on"}]}, given={"month": month})
    assert await played.text("#month") == month
