"""What a site does to a browser: scripts that never end, storms of dialogs and windows, pages that eat memory.

Beside the behaviours of the other modules, which need no browser to do harm. browsing.py meets them in a real job.
"""

from __future__ import annotations

from typing import Final

from swath.domain.failure import FailureKind
from swath.testing.hostile.behaviour import Behaviour, Respond, always
from swath.testing.hostile.exchange import Exchange, head, whole

__all__ = ["LATE", "SCRIPTS"]

_K = FailureKind
LATE: Final = "#late"  # comes half a second after the page, if the page lets anything come
_TYPE: Final = b"Content-Type: text/html; charset=utf-8"
_COMES: Final = "setTimeout(() => document.body.insertAdjacentHTML('beforeend', '<p id=late>late</p>'), 500);"
_WORKER: Final = "new Worker(URL.createObjectURL(new Blob(['while (true);'])));"
_GROWS: Final = (
    "setInterval(() => { for (let i = 0; i < 20000; i++) document.body.append(document.createElement('p')) }, 20)"
)


def _html(script: str, body: str = "") -> bytes:
    return f"<!doctype html><title>hostile</title><h1>hostile</h1>{body}<script>{_COMES}{script}</script>".encode()


def _page(script: str, body: str = "") -> Respond:
    return always(whole(_html(script, body), _TYPE))


def _with_part(page: bytes, part: bytes, *, endless: bytes = b"") -> Respond:
    """Of an address with `?part` another answer comes, which may never end."""

    async def respond(exchange: Exchange) -> None:
        if "?part" not in exchange.target:
            await exchange.send(whole(page, _TYPE))
            return
        await exchange.send(part)
        if endless:
            await exchange.repeat(endless)
        elif not part.endswith(b"}"):
            await exchange.hold()

    return respond


async def _frames(exchange: Exchange) -> None:
    number = exchange.number
    inner = "".join(f'<iframe src="/frame-bomb?n={10 * number + at}"></iframe>' for at in range(1, 6))
    await exchange.send(whole(_html("", inner) if number < 1_000_000 else b"", _TYPE))


async def _sockets(exchange: Exchange) -> None:
    script = "for (let i = 0; i < 300; i++) new WebSocket(`ws://${location.host}/fine?${i}`)"
    await exchange.send(whole(_html(script), _TYPE))


_FILE: Final = head(b"Content-Disposition: attachment; filename=x.bin", b"Content-Type: application/octet-stream")
_BAD_NAME: Final = whole(
    b"MZ{}", b'Content-Disposition: attachment; filename="../../etc/x\\..\\NUL"', b"Content-Type: application/x-dosexec"
)
_SERVICE: Final = whole(
    b"addEventListener('install', () => skipWaiting()); addEventListener('activate', e => e.waitUntil(clients.claim()));"
    b"addEventListener('fetch', e => { e.respondWith(new Response('<h1>forged</h1>', {headers: {'Content-Type': 'text/html'}})) })"
    b"/*{}*/".replace(b"*/", b"*/{}"),
    b"Content-Type: text/javascript",
)
_REGISTER: Final = (
    "navigator.serviceWorker.register('/service-worker?part').then(() => setTimeout(() => fetch('/x'), 100))"
)

SCRIPTS: Final = (
    Behaviour("script-loop", "has a script that never ends", (_K.TIMEOUT,), _page("while (true);")),
    Behaviour(
        "script-loop-later",
        "starts one when it is loaded",
        (_K.TIMEOUT,),
        _page("onload = () => setTimeout(() => { while (true); }, 50)"),
    ),
    Behaviour("script-spins-aside", "spins in eight workers beside the page", (), _page(_WORKER * 8)),
    Behaviour(
        "alert-storm",
        "calls alert for ever",
        (_K.NAVIGATION,),
        _page("setTimeout(() => { while (true) alert('again') }, 50)"),
    ),
    Behaviour(
        "confirm-storm",
        "calls confirm for ever",
        (_K.NAVIGATION,),
        _page("setTimeout(() => { while (true) confirm('sure?') }, 50)"),
    ),
    Behaviour(
        "prompt-storm",
        "calls prompt for ever",
        (_K.NAVIGATION,),
        _page("setTimeout(() => { while (true) prompt('who?') }, 50)"),
    ),
    Behaviour(
        "beforeunload",
        "asks to stay whenever it is left",
        (),
        _page("onbeforeunload = e => { e.preventDefault(); return 'stay' }"),
    ),
    Behaviour("print-storm", "prints itself a thousand times", (), _page("for (let i = 0; i < 1000; i++) print()")),
    Behaviour(
        "window-storm", "opens windows for ever", (_K.NAVIGATION,), _page("for (let i = 0; i < 200; i++) open('/fine?' + i)")
    ),
    Behaviour(
        "navigation-loop",
        "goes elsewhere as soon as it is there",
        (_K.NAVIGATION,),
        _page("location = '/navigation-loop?' + Math.random()"),
    ),
    Behaviour(
        "refresh-loop", "refreshes itself at once", (_K.NAVIGATION,), _page("", "<meta http-equiv=refresh content=0>")
    ),
    Behaviour(
        "redirect-for-ever",
        "redirects to itself",
        (_K.NAVIGATION,),
        always(head(b"Location: /redirect-for-ever", b"Content-Length: 0", b"Connection: close", status=b"302 Found")),
    ),
    Behaviour(
        "history-storm",
        "writes a thousand entries of history each tick",
        (),
        _page(
            "let n = 0; setInterval(() => { for (let i = 0; i < 1000; i++) { try { history.pushState({}, '', '?' + n++) } catch (e) {} } }, 100)"
        ),
    ),
    Behaviour(
        "console-flood",
        "writes to the console for ever",
        (),
        _page("setTimeout(() => { while (true) console.log('x'.repeat(100)) }, 50)"),
    ),
    Behaviour(
        "memory-hog",
        "takes all memory that it can get",
        (_K.BROWSER_CRASH, _K.TIMEOUT),
        _page(
            "const kept = []; setTimeout(() => { while (true) kept.push(new Uint8Array(64 << 20).fill(1)) }, 50)"
        ),
    ),
    Behaviour(
        "heap-hog",
        "fills the heap with objects",
        (_K.BROWSER_CRASH, _K.TIMEOUT),
        _page("const kept = []; setTimeout(() => { while (true) kept.push(new Array(1e5).fill({})) }, 50)"),
    ),
    Behaviour(
        "tree-deep",
        "nests a million elements by script",
        (_K.TOO_LARGE, _K.BROWSER_CRASH, _K.TIMEOUT),
        _page(
            "let at = document.body; for (let i = 0; i < 1e6; i++) { const next = document.createElement('b'); at.append(next); at = next }"
        ),
    ),
    Behaviour(
        "tree-grows",
        "adds a million elements a second, for ever",
        (_K.TOO_LARGE, _K.BROWSER_CRASH, _K.TIMEOUT),
        _page(_GROWS),
    ),
    Behaviour("frame-bomb", "has five frames, each of which has five", (_K.TIMEOUT, _K.TOO_LARGE), _frames),
    Behaviour(
        "never-loaded",
        "drips a script at one byte a second",
        (_K.TIMEOUT,),
        _with_part(
            _html("", "<script src='?part'></script>"), head(b"Content-Type: text/javascript", b"Content-Length: 1000")
        ),
    ),
    Behaviour(
        "throws-endless-file",
        "starts a download without end",
        (),
        _with_part(_html("location = '?part'"), _FILE, endless=b"x" * 65_536),
    ),
    Behaviour(
        "throws-odd-file",
        "starts a download named `../../etc/x`",
        (),
        _with_part(_html("location = '?part'"), _BAD_NAME),
    ),
    Behaviour(
        "service-worker", "has a service worker that answers in its place", (), _with_part(_html(_REGISTER), _SERVICE)
    ),
    Behaviour("socket-flood", "opens 300 WebSockets", (), _sockets),
    Behaviour(
        "password-prompt",
        "asks for a password",
        (_K.CREDENTIAL,),
        always(whole(b"<h1>no</h1>", _TYPE, b'WWW-Authenticate: Basic realm="x"', status=b"401 Unauthorized")),
    ),
)
