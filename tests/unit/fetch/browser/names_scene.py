"""A machine of its own, with nothing on its network but a name server that notes what it is asked; a program.

Started by test_browser_names.py as root. Prints the names that a browser asked for by itself, in JSON. Its arguments
are for how many seconds a name is waited for, and the beginnings of flags that the browser is to be started without.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from swath.fetch.browser.chromium.find import find
from swath.fetch.browser.chromium.launch import LaunchOptions, launch
from swath.fetch.egress.forward_proxy.browser_proxy import EGRESS_FLAGS
from tests.unit.fetch.browser.egress_pages import Pages
from tests.unit.fetch.browser.exit_scene import PLENTY, StraightWay, exits
from tests.unit.fetch.browser.launching import until

STUN_HOST = "stun.example"
NOT_ALLOWED = 3  # the exit code where the system gives no network of its own

_NEW_NAMESPACES = 0x00020000 | 0x40000000  # CLONE_NEWNS | CLONE_NEWNET
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR, _IFF_UP = 0x8913, 0x8914, 0x8916, 1
_RTM_NEWLINK, _IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_INFO_KIND = 16, 3, 18, 1
_REQUEST_TO_CREATE = 0x1 | 0x4 | 0x200 | 0x400  # NLM_F_REQUEST, _ACK, _EXCL, _CREATE

STUN = """async host => {
  const peer = new RTCPeerConnection({iceServers: [{urls: `stun:${host}:3478`}]});
  peer.createDataChannel("x");
  const over = new Promise(done => { peer.onicecandidate = e => { if (!e.candidate) done(); }; });
  await peer.setLocalDescription(await peer.createOffer());
  await Promise.race([over, new Promise(done => setTimeout(done, 3000))]);
  peer.close(); }"""


def leave() -> None:
    """For a network where nobody else is, and a file of ours names the name server. Raises OSError where the system
    does not allow it."""
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.NamedTemporaryFile("w") as resolver:
        resolver.write("nameserver 127.0.0.1\n")
        resolver.flush()
        Path(resolver.name).chmod(0o644)
        _check(libc.unshare(_NEW_NAMESPACES))
        _check(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
        real = os.path.realpath("/etc/resolv.conf")
        _check(libc.mount(resolver.name.encode(), real.encode(), None, _MS_BIND, None))
    _bring_up(b"lo")
    _make_pair(b"out")  # Chromium looks for no name while nothing but loopback is there
    _bring_up(b"out", "11.22.33.1")
    _bring_up(b"veth0")  # the other end, where nobody is


def _bring_up(name: bytes, address: str | None = None) -> None:
    with socket.socket() as any_socket:
        if address is not None:
            packed = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(any_socket, _SIOCSIFADDR, packed)
        flags = struct.unpack("16sH22x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("16sH22x", name, 0)))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH22x", name, flags | _IFF_UP))


def _make_pair(name: bytes) -> None:
    """Two interfaces that are connected with each other (linux/rtnetlink.h)."""
    kind = _attribute(_IFLA_LINKINFO, _attribute(_IFLA_INFO_KIND, b"veth"))
    link = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + _attribute(_IFLA_IFNAME, name + b"\0") + kind
    head = struct.pack("=IHHII", 16 + len(link), _RTM_NEWLINK, _REQUEST_TO_CREATE, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.send(head + link)
        error = -struct.unpack_from("=i", kernel.recv(4_096), 16)[0]
    if error:
        raise OSError(error, os.strerror(error))


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class NameServer(asyncio.DatagramProtocol):
    """Knows no name, and keeps the last two labels of all that it is asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self._way: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override] # it is one
        self._way = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        labels, at = [], 12
        while at < len(data) and data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode("ascii", "replace"))
            at += 1 + data[at]
        self.asked.add(".".join(labels[-2:]).lower())
        assert self._way is not None
        self._way.sendto(data[:2] + b"\x81\x83" + data[4:6] + bytes(6) + data[12 : at + 5], addr)  # there is none


async def names_asked(seconds: float, *without: str) -> set[str]:
    server = NameServer()
    await asyncio.get_running_loop().create_datagram_endpoint(lambda: server, local_addr=("127.0.0.1", 53))
    flags = tuple(flag for flag in EGRESS_FLAGS if not flag.startswith(without))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("swath.fetch.browser.chromium.launch.EGRESS_FLAGS", flags)
        async with Pages() as pages, exits([f"127.0.0.1:{pages.port}"]) as made:
            launched = await launch(LaunchOptions(chromium=find(), data=Path(folder), deny_port=made.deny_port))
            try:
                exit_ = await made.open(launched.user)
                exit_.serve(StraightWay(), PLENTY)
                context = await launched.browser.new_context(proxy={"server": f"http://127.0.0.1:{exit_.port}"})
                page = await context.new_page()
                await page.goto(f"{pages.url}/plain")
                await page.evaluate(STUN, STUN_HOST)
                with suppress(AssertionError):
                    await until(lambda: STUN_HOST in server.asked, seconds)
            finally:
                await launched.close()
    return server.asked


if __name__ == "__main__":
    try:
        leave()
    except OSError as error:
        sys.stderr.write(f"no network of its own: {error}\n")
        sys.exit(NOT_ALLOWED)
    json.dump(sorted(asyncio.run(names_asked(float(sys.argv[1]), *sys.argv[2:]))), sys.stdout)
