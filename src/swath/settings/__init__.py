"""Settings: read once, here and nowhere else, and handed on as values.

Each comes from a `SWATH_*` variable, else from a TOML file, else it has its default; `swath config show` says which.
"""

from swath.domain.secret import MASK
from swath.settings.loader import is_shell_completion, load, load_settings
from swath.settings.locations import (
    DynamoLocation,
    FolderLocation,
    S3Location,
    SqliteLocation,
    SqsLocation,
    StorageLocations,
)
from swath.settings.model import LoadedSettings, SettingOrigin, Settings
from swath.settings.parsers import mask_setting, parse_host, parse_server

__all__ = [
    "MASK",
    "DynamoLocation",
    "FolderLocation",
    "LoadedSettings",
    "S3Location",
    "SettingOrigin",
    "Settings",
    "SqliteLocation",
    "SqsLocation",
    "StorageLocations",
    "is_shell_completion",
    "load",
    "load_settings",
    "mask_setting",
    "parse_host",
    "parse_server",
]
