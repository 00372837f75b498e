"""Every way in which a page can make a browser connect, each to `{canary}/<its name>`; and a server with such pages.

The canary listens where nobody may come. What reaches it is in `hits`, by the names of the ways.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

from harness.fakes.listener import Listener
from harness.fakes.proxies.http_messages import read_request, request_bytes

# Elements: loaded when the page is.
MARKUP = """<!doctype html><html><head><title>egress</title>
<link rel="icon" href="{c}/favicon">
<link rel="stylesheet" href="{c}/css">
<link rel="prefetch" href="{c}/prefetch">
<link rel="preload" as="image" href="{c}/preload">
<link rel="modulepreload" href="{c}/modulepreload">
<link rel="preconnect" href="{c}">
<link rel="dns-prefetch" href="{c}">
<style>@import url("{c}/css-import"); @font-face {{ font-family: f; src: url("{c}/font"); }}
p {{ font-family: f; background: url("{c}/background"); }}</style>
<script src="{c}/script"></script>
<script type="module" src="{c}/module"></script>
</head><body><p>text</p>
<img src="{c}/img"><img srcset="{c}/srcset 1x"><input type="image" src="{c}/input">
<img src="/redirect?status=301&to={c}/img-redirect">
<iframe src="{c}/iframe"></iframe>
<iframe src="/redirect?status=302&to={c}/iframe-redirect"></iframe>
<iframe src="/refresh?to={c}/iframe-refresh"></iframe>
<iframe src="/location?to={c}/iframe-location"></iframe>
<iframe srcdoc="<img src='{c}/srcdoc'>"></iframe>
<iframe src="data:text/html,<img src='{c}/data'>"></iframe>
<iframe src="file:///etc/passwd"></iframe><iframe src="chrome://version"></iframe>
<iframe src="view-source:{c}/iframe-view-source"></iframe>
<object data="{c}/object"></object><embed src="{c}/embed">
<video src="{c}/video" autoplay muted></video><audio src="{c}/audio" autoplay></audio>
<video poster="{c}/poster"></video>
<svg><image href="{c}/svg-image"></image></svg>
<iframe name="into"></iframe><form id="form" method="post" action="{c}/form" target="into"><input name="a"></form>
<a id="open" href="#" onclick="window.open('{c}/window-open')">o</a>
<a id="blank" href="{c}/target-blank" target="_blank">b</a>
<a id="download" href="{c}/download" download>d</a>
<a id="ping" href="#x" ping="{c}/ping">p</a>
<script>{script}</script></body></html>"""

# Scripts: run behind the elements, and say when they have all come to an end.
SCRIPT = """
const c = "{c}", ws = c.replace("http", "ws"), waits = [];
const quiet = f => {{ try {{ const p = f(); if (p && p.then) waits.push(p.catch(() => 0)); }} catch (e) {{}} }};
const blob = text => URL.createObjectURL(new Blob([text], {{type: "text/javascript"}}));
quiet(() => fetch(c + "/fetch", {{mode: "no-cors"}}));
quiet(() => fetch(c + "/fetch-cors", {{headers: {{"x-a": "b"}}}}));
quiet(() => fetch(c + "/fetch-post", {{method: "POST", body: "x", mode: "no-cors", keepalive: true}}));
quiet(() => fetch("/redirect?status=307&to=" + c + "/fetch-redirect", {{mode: "no-cors"}}));
quiet(() => new Promise(r => {{ const x = new XMLHttpRequest(); x.onloadend = r;
  x.open("GET", c + "/xhr"); x.send(); }}));
quiet(() => new Promise(r => {{ const s = new WebSocket(ws + "/websocket"); s.onclose = s.onerror = r; }}));
quiet(() => new Promise(r => {{ const s = new EventSource(c + "/eventsource");
  s.onerror = () => {{ s.close(); r(); }}; }}));
quiet(() => {{ navigator.sendBeacon(c + "/beacon", "x"); }});
quiet(() => import(c + "/import"));
quiet(() => {{ new Worker(blob(`fetch("${{c}}/worker", {{mode: "no-cors"}})`)); }});
quiet(() => {{ new Worker(blob(`importScripts("${{c}}/worker-import")`)); }});
quiet(() => {{ new SharedWorker(blob(`fetch("${{c}}/shared-worker", {{mode: "no-cors"}})`)); }});
quiet(() => navigator.serviceWorker.register("/sw.js?c=" + encodeURIComponent(c)));
quiet(() => {{ document.getElementById("form").submit(); }});
quiet(() => {{ new Image().src = c + "/new-image"; }});
quiet(() => {{ const w = document.createElement("iframe"); w.src = "javascript:location='" + c + "/javascript'";
  document.body.append(w); }});
Promise.allSettled(waits).then(() => {{ document.title = "done"; }});
"""
SERVICE_WORKER = """
self.addEventListener("install", e => e.waitUntil(fetch("{c}/service-worker", {{mode: "no-cors"}}).catch(() => 0)));
"""
CLICKS = ("ping", "open", "blank", "download")
# Those that a Chromium without a guard was seen to try, each and every time.
SURE = frozenset(
    {
        *("css", "css-import", "background", "font", "script", "module", "img", "srcset", "input", "img-redirect"),
        *("iframe", "iframe-redirect", "iframe-refresh", "iframe-location", "srcdoc", "data", "object", "embed"),
        *("video", "audio", "poster", "svg-image", "form", "fetch", "fetch-cors", "fetch-post", "fetch-redirect"),
        *("xhr", "websocket", "eventsource", "beacon", "import", "worker", "worker-import", "shared-worker"),
        *("service-worker", "new-image", "javascript", "favicon", "window-open", "target-blank", "download", "preload"),
        *("ping",),
        *("modulepreload", "prefetch", "goto", "goto-301", "goto-302", "goto-refresh", "goto-location"),
    }
)


class Canary(Listener):
    """A connection is enough, whatever is said on it; what is asked for tells who asked."""

    def __init__(self) -> None:
        super().__init__()
        self.hits: list[str] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hits.append("")
        number = len(self.hits) - 1
        async with asyncio.timeout(1):  # whoever speaks TLS here is not waited for
            asked = await read_request(reader)
        self.hits[number] = urlsplit(asked.target).path.strip("/")
        writer.write(request_bytes(200, "OK", {"Content-Type": "text/plain", "Connection": "close"}, b"secret"))


class Pages(Listener):
    """The site. `canary` is where its pages lead to."""

    def __init__(self, canary: str = "") -> None:
        super().__init__()
        self.canary = canary
        self.sent_bytes = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked = await read_request(reader)
            raw = self._answer(asked.target)
            self.sent_bytes += len(raw)
            writer.write(raw)
            await writer.drain()
            if asked.headers.get("connection") == "close":
                return

    def _answer(self, target: str) -> bytes:
        parts = urlsplit(target)
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        to, kind = given.get("to", ""), {"Content-Type": "text/html"}
        if parts.path == "/redirect":
            return request_bytes(int(given["status"]), "Moved", {"Location": to})
        if parts.path == "/sw.js":
            script = SERVICE_WORKER.format(c=given["c"])
            return request_bytes(200, "OK", {"Content-Type": "text/javascript"}, script.encode())
        if parts.path == "/bytes":
            return request_bytes(200, "OK", {"Content-Type": "text/plain"}, b"x" * int(given["count"]))
        bodies = {
            "/egress": MARKUP.format(c=self.canary, script=SCRIPT.format(c=self.canary)),
            "/refresh": f'<meta http-equiv="refresh" content="0; url={to}">',
            "/location": f"<script>location = {to!r}</script>",
            "/plain": "<title>plain</title><form><input name=user><input type=password></form><a href='/plain?2'>x</a>",
        }
        return request_bytes(200, "OK", kind, bodies.get(parts.path, "").encode())


class UdpCanary(asyncio.DatagramProtocol):
    """Counts what comes by UDP."""

    def __init__(self) -> None:
        self.datagrams = 0
        self.port = 0

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.datagrams += 1

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[UdpCanary]:
        loop = asyncio.get_running_loop()
        transport, made = await loop.create_datagram_endpoint(cls, local_addr=("127.0.0.1", 0))
        made.port = transport.get_extra_info("sockname")[1]
        try:
            yield made
        finally:
            transport.close()
