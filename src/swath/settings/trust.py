"""Whether a settings file or data folder that nobody named may be used, and with which secrets.

A settings file can name scrapers, which are code, and addresses, which secrets are sent to. So one that was merely
found must belong to the user, as ssh wants of its own, and the addresses in it get no secrets from elsewhere. Whoever
names a file (SWATH_CONFIG, SWATH_SITES) consents to both. The data folder of the current folder is where jobs are read
and written, so it must belong to the user too, unless it was named (SWATH_DATA).
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from swath.domain.errors import BadInput

__all__ = ["check_data", "check_owner", "check_secrets"]

_ROOT: Final = 0
_PROXY: Final = ("proxy_url", "proxy_ca_file")
_SENT_TO: Final[Mapping[str, tuple[str, ...]]] = {
    "service_key": ("server",),
    "webhook_secret": ("webhook_url", "public_url"),  # a signed message vouches for the links in it
    "browserbase_api_key": ("browserbase_url",),
    "proxy_datacenter_password": _PROXY,
    "proxy_residential_password": _PROXY,
    "proxy_web_unlocker_password": _PROXY,
}


def check_owner(file: Path, consent: str) -> None:
    """Raises BadInput if anybody but the user and root could have written a file, or can put another in its place.

    `consent` is the variable that names such a file all the same.
    """
    anyway = f"if you trust it, name it: {consent}={shlex.quote(str(file))}"
    for path, found in _on_the_way(file):
        shown = shlex.quote(str(path))
        if found.st_uid not in (os.geteuid(), _ROOT):
            whose = f"{shown} belongs to {_user(found.st_uid)}, not to you"
            raise BadInput(f"{file} is not used: {whose}; {anyway}, or take it over: chown {_me()} {shown}")
        if _others_write(found):
            raise BadInput(
                f"{file} is not used: others may write to {shown}; close it: chmod go-w {shown}, or {anyway}"
            )


def check_data(folder: Path, consent: str) -> None:
    """The same for a data folder that was merely found, if it is there. Those above it do not matter: what is in a
    folder of the user's own was put there by the user."""
    anyway = f"if you trust it, name it: {consent}={shlex.quote(str(folder))}, else work in another folder"
    shown = shlex.quote(str(folder))
    for look in (folder.lstat, folder.stat):
        try:
            status = look()
        except OSError:  # it is made later, or cannot be had: who makes it will tell
            return
        if status.st_uid not in (os.geteuid(), _ROOT):
            raise BadInput(
                f"the data folder {folder} is not used: it belongs to {_user(status.st_uid)}, not to you; {anyway}"
            )
        if _others_write(status, or_add=True):
            cure = f"close it: chmod go-w {shown}"
            raise BadInput(f"the data folder {folder} is not used: others may write to it; {cure}, or {anyway}")


def check_secrets(file: Path, in_file: Collection[str], in_environment: Collection[str]) -> None:
    """Raises BadInput if a secret of the environment would go where a file of the current folder says."""
    for secret, addresses in _SENT_TO.items():
        for address in addresses:
            if secret in in_environment and address in in_file:
                variable = f"SWATH_{secret.upper()}"
                raise BadInput(
                    f"{file}: {address} says where {variable} of the environment goes, and nobody named this file; "
                    f"set SWATH_{address.upper()} beside it, or put {secret} into the file, or name the file: "
                    f"SWATH_CONFIG={shlex.quote(str(file))}"
                )


def _on_the_way(file: Path) -> list[tuple[Path, os.stat_result]]:
    """The file, the link that it may be, and every folder above it. Raises BadInput when one cannot be looked at."""
    real = Path(os.path.realpath(file))
    try:
        found = [(file, file.lstat())] if file.is_symlink() else []
        found.append((file, real.stat()))
        folders = dict.fromkeys([Path(os.path.realpath(file.parent)), *real.parents])
        found.extend((folder, folder.stat()) for folder in folders)
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror}") from None
    return found


def _others_write(found: os.stat_result, *, or_add: bool = False) -> bool:
    """`or_add`: whether they may put something new into a folder counts too."""
    if stat.S_ISLNK(found.st_mode):
        return False  # its mode says nothing
    if not or_add and stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        return False  # others may add files, and neither remove nor rename those of the user
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_private(found.st_gid)


def _is_private(group_id: int) -> bool:
    """Whether a group has the user alone in it, as many systems give to each: files are then writable by it."""
    try:
        group, me = grp.getgrgid(group_id), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name == me.pw_name and group_id == me.pw_gid and set(group.gr_mem) <= {me.pw_name}


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _me() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
