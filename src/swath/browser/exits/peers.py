"""Peers: whose process is at the other end of a connection on loopback, as the kernel knows it (Linux: sock_diag).

Asked by the exits: a port on loopback is open to everybody on the machine, and an exit is for our browsers only.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

__all__ = ["owner_of"]

# linux/sock_diag.h and linux/inet_diag.h
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_ALL_STATES: Final = 0xFFFFFFFF
_NO_COOKIE: Final = b"\xff" * 8
_HEADER: Final = struct.Struct("=IHHII")
_ASKED: Final = struct.Struct("=BBBxI")
_UID_OFFSET: Final = _HEADER.size + 4 + 48 + 12  # past the states, the socket's id, and expires, rqueue, wqueue
_ANSWER_BYTES: Final = 4_096
_WAIT_SECONDS: Final = 0.5  # the kernel answers before `send` returns


def owner_of(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user whose socket is at `client`, connected to ours at `server`, both IPv4. None where nobody can tell."""
    family = getattr(socket, "AF_NETLINK", None)
    if family is None:
        return None
    ends = struct.pack("!HH", client[1], server[1])
    ends += socket.inet_aton(client[0]).ljust(16, b"\0") + socket.inet_aton(server[0]).ljust(16, b"\0")
    asked = _ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, _ALL_STATES) + ends + struct.pack("=I", 0) + _NO_COOKIE
    message = _HEADER.pack(_HEADER.size + len(asked), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + asked
    try:
        with socket.socket(family, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(_WAIT_SECONDS)
            kernel.send(message)
            answer = kernel.recv(_ANSWER_BYTES)
    except OSError:  # not every kernel has it, nor every jail lets it be asked
        return None
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    return int(struct.unpack_from("=I", answer, _UID_OFFSET)[0])
