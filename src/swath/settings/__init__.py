"""Settings: read once, here and nowhere else, and handed on as values.

model.py says which there are, reading.py finds them, values.py and places.py make values of what was written. Each
comes from a `SWATH_*` variable, else from a TOML file, else it has its default; `swath config show` says which.
"""

from swath.domain.secret import MASK
from swath.settings.model import Origin, Reading, Settings
from swath.settings.places import DynamoPlace, FolderPlace, Places, S3Place, SqlitePlace, SqsPlace
from swath.settings.reading import completion_asked, read, read_settings
from swath.settings.values import masked, parse_host, parse_server

__all__ = [
    "MASK",
    "DynamoPlace",
    "FolderPlace",
    "Origin",
    "Places",
    "Reading",
    "S3Place",
    "Settings",
    "SqlitePlace",
    "SqsPlace",
    "completion_asked",
    "masked",
    "parse_host",
    "parse_server",
    "read",
    "read_settings",
]
