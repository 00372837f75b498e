"""Peers: whose process is at the other end of a connection on loopback, as the kernel knows it (Linux: sock_diag).

Asked by the exits: a port on loopback is open to everybody on the machine, and an exit is for one browser only.
"""

from __future__ import annotations

import errno
import socket
import struct
import sys
from pathlib import Path
from typing import Final

__all__ = ["is_of"]

# linux/sock_diag.h and linux/inet_diag.h
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_ALL_STATES: Final = 0xFFFFFFFF
_NO_COOKIE: Final = b"\xff" * 8
_HEADER: Final = struct.Struct("=IHHII")
_ASKED: Final = struct.Struct("=BBBxI")
_OPEN: Final = frozenset({1, 8})  # established; or the other end, which is ours, has been closed
_NONE: Final = -1
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
    owner = _by_diagnosis(client, server)
    return (_by_table(client, server) if owner is None else owner) == user


def _by_diagnosis(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """-1: there is none. None: not every kernel has it, nor every jail lets it be asked."""
    ends = struct.pack("!HH", client[1], server[1])
    ends += socket.inet_aton(client[0]).ljust(16, b"\0") + socket.inet_aton(server[0]).ljust(16, b"\0")
    asked = _ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, _ALL_STATES) + ends + struct.pack("=I", 0) + _NO_COOKIE
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
        return _NONE if -error == errno.ENOENT else None
    if answer[_STATE_OFFSET] not in _OPEN:
        return _NONE
    return int(struct.unpack_from("=I", answer, _UID_OFFSET)[0])


def _by_table(client: tuple[str, int], server: tuple[str, int]) -> int:
    """Slower, and everywhere."""
    for line in _TABLE.read_text(encoding="ascii").splitlines()[1:]:
        words = line.split()
        if words[1] == _spelt(client) and words[2] == _spelt(server) and int(words[3], 16) in _OPEN:
            return int(words[7])
    return _NONE


def _spelt(end: tuple[str, int]) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(end[0]))
    return f"{number:08X}:{end[1]:04X}"
