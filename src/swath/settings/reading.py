"""Finds the settings: variables first, then one TOML file. After: values.py makes values of what was written."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from swath.domain.errors import BadInput
from swath.domain.secret import MASK
from swath.settings.model import AWS_LEASE_SECONDS, Origin, Reading, Settings
from swath.settings.places import DynamoPlace
from swath.settings.trust import check_data, check_owner, check_secrets
from swath.settings.values import PARSERS, masked

__all__ = ["completion_asked", "read", "read_settings"]

PREFIX: Final = "SWATH_"
CONFIG_VARIABLE: Final = "SWATH_CONFIG"
CONFIG_NAME: Final = "swath.toml"
SITES_NAME: Final = "sites.yaml"
_SOURCES: Final = ("file", "environment")


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings alone."""
    return read(environment).settings


def read(environment: Mapping[str, str] | None = None) -> Reading:
    """Raises BadInput for a value that cannot be used and for a key that the file should not have."""
    given = _environment() if environment is None else environment
    variables = {name: value for name, value in given.items() if name.startswith(PREFIX) and value}
    file, found_here = _config_file(given)
    written = {} if file is None else _read_file(file)
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for field, parse in PARSERS.items():
        variable = PREFIX + field.upper()
        if variable in variables:
            origins[field] = Origin("environment", variable)
            values[field] = parse(variables[variable], variable, Path())
        elif field in written and file is not None:
            origins[field] = Origin("file", f"{file}: {field}")
            values[field] = parse(written[field], f"{file}: {field}", file.parent)
        else:
            origins[field] = Origin("default", "default")
    if file is not None and found_here:
        sources = {source: [field for field, at in origins.items() if at.source == source] for source in _SOURCES}
        check_secrets(file, sources["file"], sources["environment"])
    settings = _settings(values)
    if settings.heartbeat_seconds >= settings.lease_seconds:
        raise BadInput(_too_slow(settings, origins))
    ours = {CONFIG_VARIABLE, *(PREFIX + field.upper() for field in PARSERS)}
    unknown = {name: _shown_unknown(name, variables[name]) for name in sorted(variables) if name not in ours}
    return Reading(settings=settings, origins=origins, file=file, unknown=unknown)


def completion_asked(environment: Mapping[str, str] | None = None) -> bool:
    """Whether a shell, not a person, has called: it wants the words that may come next."""
    return "_SWATH_COMPLETE" in (_environment() if environment is None else environment)


def _environment() -> dict[str, str]:
    return dict(os.environ)  # noqa: TID251 the one place that reads it


def _settings(values: dict[str, Any]) -> Settings:
    """With the defaults that follow from what was given."""
    if "lease_seconds" not in values and isinstance(values.get("store"), DynamoPlace):
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


def _too_slow(settings: Settings, origins: Mapping[str, Origin]) -> str:
    told = [
        f"{field} ({getattr(settings, field):g}, {origins[field].name})"
        for field in ("heartbeat_seconds", "lease_seconds")
    ]
    return f"{told[0]} must be less than {told[1]}: a lease would run out before it is renewed"


def _shown_unknown(name: str, value: str) -> str:
    """A misspelt name of a secret need not smell of one, so nothing near the proxies and the webhooks is shown."""
    return MASK if name.startswith((f"{PREFIX}PROXY", f"{PREFIX}WEBHOOK")) else masked(name, value)


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
