"""Recordings of other recorders made into ours: door.py reads them, binding/ puts inputs in them."""

from swath.actions.importing.binding.bind import Bound, bind
from swath.actions.importing.binding.suggest import Suggestion, suggest
from swath.actions.importing.door import import_recording
from swath.actions.importing.imported import Imported, Importer, Remark
from swath.actions.importing.mapping import RecorderMapping, read_mapping

__all__ = [
    "Bound",
    "Imported",
    "Importer",
    "RecorderMapping",
    "Remark",
    "Suggestion",
    "bind",
    "import_recording",
    "read_mapping",
    "suggest",
]
