"""Imports recordings of other recorders, and binds inputs in the place of recorded values."""

from swath.recordings.importers.binding.bind import BoundRecording, Suggestion, bind, suggest
from swath.recordings.importers.importer import import_recording
from swath.recordings.importers.mapping import RecorderMapping, read_mapping
from swath.recordings.importers.remarks import Imported, Importer, Remark

__all__ = [
    "BoundRecording",
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
