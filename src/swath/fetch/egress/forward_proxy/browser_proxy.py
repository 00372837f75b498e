"""The local forward proxies of browsers: a loopback port for each context, and one that refuses everything.

Only processes of the browser's own user may connect (checked by sock_diag on Linux). The Chromium flags here close
what does not go through a proxy.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure
from swath.fetch.egress.forward_proxy.browser_connection import BrowserConnection
from swath.fetch.egress.forward_proxy.browser_egress import (
    AttemptTraffic,
    BrowserProxyLimits,
    EgressDialer,
    RouteChooser,
    authority_of_url,
)
from swath.fetch.egress.forward_proxy.upstream import close_gracefully
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.url import canonical

__all__ = ["DISABLED_FEATURES", "EGRESS_FLAGS", "BrowserProxies", "BrowserProxyLimits", "ContextForwardProxy", "is_of"]

# linux/sock_diag.h and linux/inet_diag.h
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_ALL_STATES: Final = 0xFFFFFFFF
_NO_COOKIE: Final = b"\xff" * 8
_HEADER: Final = struct.Struct("=IHHII")
_REQUEST: Final = struct.Struct("=BBBxI")
_OPEN_STATES: Final = frozenset({1, 8})  # established; or the other end, which is ours, has been closed
_NO_OWNER: Final = -1
_TABLE: Final = Path("/proc/net/tcp")
_STATE_OFFSET: Final = _HEADER.size + 1
_UID_OFFSET: Final = _HEADER.size + 4 + 48 + 12  # past the states, the socket's id, and expires, rqueue, wqueue
_ANSWER_BYTES: Final = 4_096
_WAIT_SECONDS: Final = 0.5  # the kernel answers before `send` returns


def is_of(user: int, client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether the socket at `client`, connected to ours at `server`, both IPv4, is that user's and open.

    Of one that was closed the kernel forgets the owner and says root, so it is nobody's: its browser waits for no
    answer either. Where there is no such kernel, everybody's are.
    """
    if not sys.platform.startswith("linux"):
        return True
    owner = _owner_by_sock_diag(client, server)
    return (_owner_by_proc_net(client, server) if owner is None else owner) == user


def _owner_by_sock_diag(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """-1: there is none. None: not every kernel has it, nor every jail lets it be asked."""
    ends = struct.pack("!HH", client[1], server[1])
    ends += socket.inet_aton(client[0]).ljust(16, b"\0") + socket.inet_aton(server[0]).ljust(16, b"\0")
    asked = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, _ALL_STATES) + ends + struct.pack("=I", 0) + _NO_COOKIE
    message = _HEADER.pack(_HEADER.size + len(asked), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + asked
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(_WAIT_SECONDS)
            kernel.send(message)
            answer = kernel.recv(_ANSWER_BYTES)
    except OSError:
        return None
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        error = struct.unpack_from("=i", answer, _HEADER.size)[0]
        return _NO_OWNER if -error == errno.ENOENT else None
    if answer[_STATE_OFFSET] not in _OPEN_STATES:
        return _NO_OWNER
    return int(struct.unpack_from("=I", answer, _UID_OFFSET)[0])


def _owner_by_proc_net(client: tuple[str, int], server: tuple[str, int]) -> int:
    """Slower, and everywhere."""
    for line in _TABLE.read_text(encoding="ascii").splitlines()[1:]:
        words = line.split()
        if (
            words[1] == _proc_net_address(client)
            and words[2] == _proc_net_address(server)
            and int(words[3], 16) in _OPEN_STATES
        ):
            return int(words[7])
    return _NO_OWNER


def _proc_net_address(end: tuple[str, int]) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(end[0]))
    return f"{number:08X}:{end[1]:04X}"


_LOOPBACK = "127.0.0.1"
_DISCONNECTED = (OSError, EOFError, asyncio.CancelledError)


class ContextForwardProxy:
    """Implements Exit. Made by Exits; closed by whoever closes the context. Until it serves, nothing may leave.

    `user` is whose processes may use it; None: anybody's, for the port where nothing gets out.
    """

    def __init__(self, dialler: EgressDialer, limits: BrowserProxyLimits, user: int | None) -> None:
        self._dialler = dialler
        self._limits = limits
        self._user = user
        self._server: asyncio.Server | None = None
        self._traffic = AttemptTraffic(None, 0)
        self._lines: set[asyncio.Task[None]] = set()  # also those of attempts that are over

    async def start(self) -> None:
        """Listens on a port that the system chooses."""
        self._server = await asyncio.start_server(self._accept, _LOOPBACK, 0)

    async def close(self) -> None:
        """Closes every line."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    @property
    def port(self) -> int:
        """See Exit."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server is not None else 0

    @property
    def token(self) -> str:
        """See Exit."""
        return self._traffic.token

    @property
    def sent_bytes(self) -> int:
        """See Exit."""
        return self._traffic.sent_bytes

    @property
    def received_bytes(self) -> int:
        """See Exit."""
        return self._traffic.received_bytes

    @property
    def requests(self) -> int:
        """See Exit."""
        return self._traffic.requests

    @property
    def overrun(self) -> Failure | None:
        """See Exit."""
        return self._traffic.overrun

    def serve(self, way: RouteChooser | None, most_bytes: int) -> None:
        """See Exit."""
        self._traffic.end()
        self._traffic = AttemptTraffic(way, most_bytes)

    def trouble(self, url: str) -> Failure | None:
        """See Exit."""
        try:
            return self._traffic.trouble(authority_of_url(canonical(url)))
        except Failed:
            return None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        traffic, task = self._traffic, asyncio.current_task()
        if task is None or len(traffic.lines) >= self._limits.most_lines or not self._is_ours(writer):
            writer.transport.abort()
            return
        for lines in (traffic.lines, self._lines):
            lines.add(task)
            task.add_done_callback(lines.discard)
        try:
            await BrowserConnection(traffic, self._dialler, self._limits.idle_seconds, (reader, writer)).run()
        except _DISCONNECTED:
            writer.transport.abort()  # nobody waits for this task: the browser sees its connection end
        finally:
            await close_gracefully(writer)

    def _is_ours(self, writer: asyncio.StreamWriter) -> bool:
        """Whether the browser that it was made for is at the other end."""
        if self._user is None:
            return True
        with suppress(OSError, TypeError):
            return is_of(self._user, writer.get_extra_info("peername")[:2], writer.get_extra_info("sockname")[:2])
        return False


class BrowserProxies:
    """One per process. `ca_file`: certificates to trust besides the usual, of proxies that are spoken to by TLS."""

    def __init__(
        self,
        guard: EgressGuard,
        limits: BrowserProxyLimits | None = None,
        *,
        ca_file: Path | None = None,
    ) -> None:
        self._limits = limits or BrowserProxyLimits()
        self._open: set[ContextForwardProxy] = set()
        self._dialler = EgressDialer(guard, self, self._limits, ca_file)
        self._deny: ContextForwardProxy | None = None

    async def start(self) -> None:
        """Opens the port that a browser is launched with: what it says by itself goes there, and no further."""
        self._deny = await self._open_for(None)

    async def open(self, user: int | None = None) -> ContextForwardProxy:
        """The exit of one context, on a port of its own. `user` is whom its browser runs as, if not as we do."""
        return await self._open_for(os.geteuid() if user is None else user)

    async def _open_for(self, user: int | None) -> ContextForwardProxy:
        made = ContextForwardProxy(self._dialler, self._limits, user)
        await made.start()
        self._open = {known for known in self._open if known.port} | {made}
        return made

    async def close(self) -> None:
        """All of them."""
        for known in self._open:
            await known.close()
        self._open = set()

    @property
    def deny_port(self) -> int:
        """Where nothing gets out."""
        return 0 if self._deny is None else self._deny.port

    @property
    def denied(self) -> int:
        """How often something was asked for there."""
        return 0 if self._deny is None else self._deny.requests

    def __contains__(self, port: object) -> bool:
        """Whether a port is that of an exit."""
        return any(known.port == port for known in self._open)


# Of two lists of features Chromium takes the last one, so ours repeats the driver's, which a test compares.
_DISABLED_BY_DRIVER: Final = (
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "DialMediaRouteProvider"),
    *("GlobalMediaControls", "HttpsUpgrades", "LensOverlay", "PaintHolding", "ThirdPartyStoragePartitioning"),
    *("BlockOriginHeaderModificationOnRedirect", "AvoidCorsURLLoaderRestartOnRedirect", "Translate", "AutoDeElevate"),
    *("OptimizationHints", "NetworkTimeServiceQuerying", "AimEnabled"),
    *("msForceBrowserSignIn", "msEdgeUpdateLaunchServicesPreferredVersion"),
)
DISABLED_FEATURES: Final[tuple[str, ...]] = (
    *_DISABLED_BY_DRIVER,
    "PreconnectToSearch",  # a connection to the search engine with every navigation, by the context's exit
    "AutofillServerCommunication",  # asks what the fields of a form mean, by the context's exit
    "SpareRendererForSitePerProcess",  # a process in advance for one context, thrown away when another one navigates
    # A page of suggestions behind the address bar of each window, in a process of its own: more than half of what a
    # context that serves one page would cost.
    *("WebUIOmniboxPopup", "WebUIOmniboxFullPopup", "WebUIOmniboxAimPopup"),
    # Each document in a frame of its own, with all that belongs to one, where the next page of a site could take over
    # the last one's: a quarter of what a page in a kept context costs. Pages cannot tell.
    "RenderDocument",
)
_UNREACHABLE_URL: Final = (
    "http://nowhere.invalid:1"  # a port that Chromium itself refuses, and a host that is no site's
)

EGRESS_FLAGS: Final[tuple[str, ...]] = (
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--disable-quic",
    "--disable-component-update",
    "--disable-domain-reliability",
    f"--component-updater=url-source={_UNREACHABLE_URL}",  # asked at a start by some versions, whatever is disabled
    f"--gaia-url={_UNREACHABLE_URL}",  # sign-in, asked at every start
    f"--gcm-checkin-url={_UNREACHABLE_URL}",  # push messages, asked after a minute
    f"--gcm-registration-url={_UNREACHABLE_URL}",
    f"--disable-features={','.join(DISABLED_FEATURES)}",
)
