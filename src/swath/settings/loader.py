"""Loads the settings: variables first, then one TOML file, whose owner is checked unless the user named it.

A settings file can name scrapers, which are code, and addresses that secrets are sent to. A file or data folder that
was merely found must belong to the user, and gets no secrets from elsewhere.
"""

from __future__ import annotations

import difflib
import grp
import os
import pwd
import shlex
import stat
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from swath.domain.errors import BadInput
from swath.domain.secret import MASK
from swath.settings.locations import DynamoLocation
from swath.settings.model import AWS_LEASE_SECONDS, LoadedSettings, SettingOrigin, Settings
from swath.settings.parsers import PARSERS, mask_setting

__all__ = ["check_data", "check_owner", "check_secrets", "is_shell_completion", "load", "load_settings"]

_ROOT: Final = 0
_PROXY: Final = ("proxy_url", "proxy_ca_file")
_SECRET_DESTINATIONS: Final[Mapping[str, tuple[str, ...]]] = {
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
    for path, found in _file_and_folders(file):
        shown = shlex.quote(str(path))
        if found.st_uid not in (os.geteuid(), _ROOT):
            whose = f"{shown} belongs to {_user_name(found.st_uid)}, not to you"
            raise BadInput(
                f"{file} is not used: {whose}; {anyway}, or take it over: chown {_current_user_id()} {shown}"
            )
        if _writable_by_others(found):
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
                f"the data folder {folder} is not used: it belongs to {_user_name(status.st_uid)}, not to you; {anyway}"
            )
        if _writable_by_others(status, or_add=True):
            cure = f"close it: chmod go-w {shown}"
            raise BadInput(f"the data folder {folder} is not used: others may write to it; {cure}, or {anyway}")


def check_secrets(file: Path, in_file: Collection[str], in_environment: Collection[str]) -> None:
    """Raises BadInput if a secret of the environment would go where a file of the current folder says."""
    for secret, addresses in _SECRET_DESTINATIONS.items():
        for address in addresses:
            if secret in in_environment and address in in_file:
                variable = f"SWATH_{secret.upper()}"
                raise BadInput(
                    f"{file}: {address} says where {variable} of the environment goes, and nobody named this file; "
                    f"set SWATH_{address.upper()} beside it, or put {secret} into the file, or name the file: "
                    f"SWATH_CONFIG={shlex.quote(str(file))}"
                )


def _file_and_folders(file: Path) -> list[tuple[Path, os.stat_result]]:
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


def _writable_by_others(found: os.stat_result, *, or_add: bool = False) -> bool:
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


def _user_name(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _current_user_id() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


PREFIX: Final = "SWATH_"
CONFIG_VARIABLE: Final = "SWATH_CONFIG"
CONFIG_NAME: Final = "swath.toml"
SITES_NAME: Final = "sites.yaml"
_SOURCES: Final = ("file", "environment")


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings alone."""
    return load(environment).settings


def load(environment: Mapping[str, str] | None = None) -> LoadedSettings:
    """Raises BadInput for a value that cannot be used and for a key that the file should not have."""
    given = _environment() if environment is None else environment
    variables = {name: value for name, value in given.items() if name.startswith(PREFIX) and value}
    file, found_here = _config_file(given)
    written = {} if file is None else _read_file(file)
    values: dict[str, Any] = {}
    origins: dict[str, SettingOrigin] = {}
    for field, parse in PARSERS.items():
        variable = PREFIX + field.upper()
        if variable in variables:
            origins[field] = SettingOrigin("environment", variable)
            values[field] = parse(variables[variable], variable, Path())
        elif field in written and file is not None:
            origins[field] = SettingOrigin("file", f"{file}: {field}")
            values[field] = parse(written[field], f"{file}: {field}", file.parent)
        else:
            origins[field] = SettingOrigin("default", "default")
    if file is not None and found_here:
        sources = {source: [field for field, at in origins.items() if at.source == source] for source in _SOURCES}
        check_secrets(file, sources["file"], sources["environment"])
    settings = _with_defaults(values)
    if settings.heartbeat_seconds >= settings.lease_seconds:
        raise BadInput(_check_heartbeat(settings, origins))
    ours = {CONFIG_VARIABLE, *(PREFIX + field.upper() for field in PARSERS)}
    unknown = {name: _shown_unknown(name, variables[name]) for name in sorted(variables) if name not in ours}
    return LoadedSettings(settings=settings, origins=origins, file=file, unknown=unknown)


def is_shell_completion(environment: Mapping[str, str] | None = None) -> bool:
    """Whether a shell, not a person, has called: it wants the words that may come next."""
    return "_SWATH_COMPLETE" in (_environment() if environment is None else environment)


def _environment() -> dict[str, str]:
    return dict(os.environ)  # noqa: TID251 the one place that reads it


def _with_defaults(values: dict[str, Any]) -> Settings:
    """With the defaults that follow from what was given."""
    if "lease_seconds" not in values and isinstance(values.get("store"), DynamoLocation):
        values["lease_seconds"] = AWS_LEASE_SECONDS
    if "heartbeat_seconds" not in values and "lease_seconds" in values:
        values["heartbeat_seconds"] = values["lease_seconds"] / 3
    if "sites" not in values and Path(SITES_NAME).is_file():
        check_owner(Path(SITES_NAME), "SWATH_SITES")
        values["sites"] = Path(SITES_NAME)
    settings = Settings(**values)
    if "data" not in values:
        check_data(settings.data, "SWATH_DATA")
    _ = settings.places  # said now, and not by the first command that opens them
    return settings


def _check_heartbeat(settings: Settings, origins: Mapping[str, SettingOrigin]) -> str:
    told = [
        f"{field} ({getattr(settings, field):g}, {origins[field].name})"
        for field in ("heartbeat_seconds", "lease_seconds")
    ]
    return f"{told[0]} must be less than {told[1]}: a lease would run out before it is renewed"


def _shown_unknown(name: str, value: str) -> str:
    """A misspelt name of a secret need not smell of one, so nothing near the proxies and the webhooks is shown."""
    return MASK if name.startswith((f"{PREFIX}PROXY", f"{PREFIX}WEBHOOK")) else mask_setting(name, value)


def _config_file(environment: Mapping[str, str]) -> tuple[Path | None, bool]:
    """The one that is named, else the one in this folder, else the user's own; and whether it is that of this folder.

    Raises BadInput for one that nobody named and that others could have written.
    """
    if named := environment.get(CONFIG_VARIABLE):
        return Path(named), False
    folders = [Path()]
    if home := environment.get("XDG_CONFIG_HOME"):
        folders.append(Path(home) / "swath")
    elif home := environment.get("HOME"):
        folders.append(Path(home) / ".config" / "swath")
    for folder in folders:
        if (folder / CONFIG_NAME).is_file():
            check_owner(folder / CONFIG_NAME, CONFIG_VARIABLE)
            return folder / CONFIG_NAME, folder == folders[0]
    return None, False


def _read_file(file: Path) -> dict[str, Any]:
    if file.exists() and not (file.is_file() or file.is_dir()):  # opening a pipe would wait for somebody to write
        raise BadInput(f"{file}: is a pipe or a device, not a file; correct {CONFIG_VARIABLE}")
    try:
        written = tomllib.loads(file.read_bytes().decode("utf-8"))
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror}; correct {CONFIG_VARIABLE}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{file}: is not UTF-8 text; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{file}: is not valid TOML: {error}") from None
    for key in written:
        if key not in PARSERS:
            near = difflib.get_close_matches(key.lower().removeprefix(PREFIX.lower()), PARSERS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it may have {', '.join(PARSERS)}"
            raise BadInput(f"{file}: {key!r} is no setting; {hint}")
    return written
