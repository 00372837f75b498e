"""What a site does to a browser: scripts that never end, storms of dialogs and windows, pages that eat memory.

Beside the behaviours of the other modules, which need no browser to do harm. browsing.py meets them in a real job.
"""

from __future__ import annotations

from typing import Final

from harness.fakes.hostile_site.behaviour import Behaviour, Respond, SiteExchange, always, head, whole
from swath.domain.failure import FailureKind

__all__ = ["LATE", "SCRIPTS"]

_K = FailureKind
LATE: Final = "#late"  # comes half a second after the page, if the page lets anything come
_TYPE: Final = b"Content-Type: text/html; charset=utf-8"
_COMES: Final = "setTimeout(() => document.body.insertAdjacentHTML('beforeend', '<p id=late>late</p>'), 500);"
_HEAVY: Final = (_K.TIMEOUT, _K.TOO_LARGE, _K.BROWSER_CRASH)


def _html(script: str, body: str = "") -> bytes:
    return f"<!doctype html><title>hostile</title><h1>hostile</h1>{body}<script>{_COMES}{script}</script>".encode()


def _page(script: str, body: str = "") -> Respond:
    return always(whole(_html(script, body), _TYPE))


def _soon(script: str) -> Respond:
    """When the page has been loaded."""
    return _page(f"setTimeout(() => {{ {script} }}, 50)")


def _with_part(script: str, part: bytes, *, body: str = "", more: bytes = b"") -> Respond:
    """At an address with `?part` another answer comes; with `more` for ever."""

    async def respond(exchange: SiteExchange) -> None:
        if "?part" not in exchange.target:
            await exchange.send(whole(_html(script, body), _TYPE))
            return
        await exchange.send(part)
        if more:
            await exchange.repeat(more)

    return respond


async def _frames(exchange: SiteExchange) -> None:
    inner = "".join(f'<iframe src="/frame-bomb?n={10 * exchange.number + at}"></iframe>' for at in range(1, 6))
    await exchange.send(whole(_html("", inner), _TYPE))


async def _never_loaded(exchange: SiteExchange) -> None:
    if "?part" not in exchange.target:
        await exchange.send(whole(_html("", "<script src='?part'></script>"), _TYPE))
        return
    await exchange.send(head(b"Content-Type: text/javascript", b"Content-Length: 1000"))
    await exchange.drip(b" " * 1_000)


_FILE: Final = head(b"Content-Disposition: attachment; filename=x.bin", b"Content-Type: application/octet-stream")
_ODD_FILE: Final = whole(
    b"MZ", b'Content-Disposition: attachment; filename="../../etc/x\\NUL"', b"Content-Type: application/x-dosexec"
)
_SERVICE: Final = whole(
    b"addEventListener('install', () => skipWaiting());"
    b"addEventListener('activate', event => event.waitUntil(clients.claim()));"
    b"addEventListener('fetch', event => event.respondWith(new Response('<h1>forged</h1>')))",
    b"Content-Type: text/javascript",
)
_REGISTERS: Final = "navigator.serviceWorker.register('/service-worker?part').then(() => fetch('/x'), () => {})"
_SPINS: Final = "for (let i = 0; i < 8; i++) new Worker(URL.createObjectURL(new Blob(['while (true);'])))"
_HISTORY: Final = (
    "let n = 0; setInterval(() => {"
    " for (let i = 0; i < 1000; i++) try { history.pushState({}, '', '?' + n++) } catch (error) {} }, 100)"
)
_DEEP: Final = (
    "let at = document.body; for (let i = 0; i < 1e6; i++)"
    " { const next = document.createElement('b'); at.append(next); at = next }"
)
_GROWS: Final = (
    "setInterval(() => { for (let i = 0; i < 2e4; i++) document.body.append(document.createElement('p')) }, 20)"
)
_SOCKETS: Final = "for (let i = 0; i < 300; i++) new WebSocket(`ws://${location.host}/fine?${i}`)"
_TURN: Final = head(b"Location: /redirect-for-ever", b"Content-Length: 0", b"Connection: close", status=b"302 Found")
_PASSWORD: Final = whole(b"<h1>no</h1>", _TYPE, b'WWW-Authenticate: Basic realm="x"', status=b"401 Unauthorized")

SCRIPTS: Final = (
    Behaviour("script-loop", "has a script that never ends", (_K.TIMEOUT,), _page("while (true);")),
    Behaviour("script-loop-later", "starts one when it has been loaded", (_K.TIMEOUT,), _soon("while (true);")),
    Behaviour("script-spins-aside", "spins in eight workers beside the page", (), _page(_SPINS)),
    Behaviour("alert-storm", "calls alert for ever", (_K.NAVIGATION,), _soon("while (true) alert('again')")),
    Behaviour("confirm-storm", "calls confirm for ever", (_K.NAVIGATION,), _soon("while (true) confirm('sure?')")),
    Behaviour("prompt-storm", "calls prompt for ever", (_K.NAVIGATION,), _soon("while (true) prompt('who?')")),
    Behaviour(
        "beforeunload",
        "asks to stay whenever it is left",
        (),
        _page("onbeforeunload = event => { event.preventDefault(); return 'stay' }"),
    ),
    Behaviour("print-storm", "prints itself 50 times", (), _page("for (let i = 0; i < 50; i++) print()")),
    Behaviour(
        "window-storm", "opens 200 windows unasked", (), _page("for (let i = 0; i < 200; i++) open('/fine?' + i)")
    ),
    Behaviour(
        "navigation-loop",
        "goes elsewhere as soon as it is there",
        (_K.NAVIGATION, _K.TIMEOUT),
        _page("location = '/navigation-loop?' + Math.random()"),
    ),
    Behaviour(
        "refresh-loop",
        "refreshes itself at once",
        (_K.NAVIGATION, _K.TIMEOUT),
        _page("", "<meta http-equiv=refresh content=0>"),
    ),
    Behaviour("redirect-for-ever", "redirects to itself", (_K.NAVIGATION,), always(_TURN)),
    Behaviour("history-storm", "writes 10,000 entries of history a second", (), _page(_HISTORY)),
    Behaviour(
        "console-flood",
        "writes to the console for ever",
        (_K.TIMEOUT, _K.BROWSER_CRASH),
        _soon("while (true) console.log('x'.repeat(99))"),
    ),
    Behaviour(
        "memory-hog",
        "takes all memory that it can get",
        _HEAVY,
        _soon("const kept = []; while (true) try { kept.push(new Uint8Array(64 << 20).fill(1)) } catch (error) {}"),
    ),
    Behaviour(
        "heap-hog",
        "fills the heap with objects",
        _HEAVY,
        _soon("const kept = []; while (true) kept.push(new Array(1e5).fill({}))"),
    ),
    Behaviour("tree-deep", "nests a million elements by script", _HEAVY, _page(_DEEP)),
    Behaviour("tree-grows", "adds a million elements a second, for ever", _HEAVY, _page(_GROWS)),
    Behaviour("frame-bomb", "has five frames, each of which has five", _HEAVY, _frames),
    Behaviour("never-loaded", "needs a script that comes at one byte a second", (_K.TIMEOUT,), _never_loaded),
    Behaviour(
        "throws-endless-file",
        "starts a download without end",
        (_K.NAVIGATION, _K.TIMEOUT),
        _with_part("location = '?part'", _FILE, more=b"x" * 65_536),
    ),
    Behaviour(
        "throws-odd-file",
        "starts a download named `../../etc/x`",
        (_K.NAVIGATION, _K.TIMEOUT),
        _with_part("location = '?part'", _ODD_FILE),
    ),
    Behaviour("service-worker", "has a service worker that answers in its place", (), _with_part(_REGISTERS, _SERVICE)),
    Behaviour("socket-flood", "opens 300 WebSockets", (), _page(_SOCKETS)),
    Behaviour("password-prompt", "asks for a password", (_K.CREDENTIAL,), always(_PASSWORD)),
)
