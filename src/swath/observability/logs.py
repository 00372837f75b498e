"""Formats every log line of the process, also those of libraries, as JSON or text, with ids and without secrets.

Code logs with the standard library's `logging`, with fields in `extra`. structlog is imported with the first line.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterable, MutableMapping
from typing import Any, Final, TextIO

from swath.domain.secret import Secret
from swath.observability.masking import SecretMask
from swath.observability.task_context import ITEMS_LOGGER, current_task_context

__all__ = ["mask_text", "set_up_logging"]

_FIRST_FIELDS: Final = ("timestamp", "level", "logger", "event", "request_id", "job_id", "item_id")
_IDS: Final = ("request_id", "job_id", "item_id")
_NOISY_LOGGERS: Final = ("aiobotocore", "botocore")  # at debug: the headers that they sign, and so the tokens of a role
_OWN_HANDLERS: Final = ("uvicorn", "uvicorn.access", "uvicorn.error")

_mask = SecretMask()

Event = MutableMapping[str, Any]


def set_up_logging(
    level: str,
    form: str = "json",
    secrets: Iterable[Secret] = (),
    *,
    stream: TextIO | None = None,
    items: bool = True,
) -> None:
    """All lines go to `stream` (stderr), in the form `json` or `text`. `items` tells of every item that ends, too.

    May be called again: the last word counts.
    """
    _mask.learn(secrets)
    handler = _Handler(sys.stderr if stream is None else stream)
    handler.setFormatter(_Formatter(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO if level == "DEBUG" else level)
    for name in _OWN_HANDLERS:
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    logging.getLogger(ITEMS_LOGGER).disabled = not items


class _Handler(logging.StreamHandler[TextIO]):
    """Says no more of a line that cannot be made than who wrote it: its parts have not been masked."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 the library's name
        with contextlib.suppress(OSError, ValueError):  # nobody reads any more
            self.stream.write(json.dumps({"level": "ERROR", "logger": record.name, "event": "a line was lost"}) + "\n")


class _Formatter(logging.Formatter):
    """Most processes never write a line, and need not wait for what makes them."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._form = form
        self._made: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        self._made = self._made or _formatter(self._form)
        return self._made.format(record)


def _formatter(form: str) -> logging.Formatter:
    import structlog  # noqa: PLC0415 see above

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder()],
        processors=[
            _add_record_fields,
            structlog.processors.format_exc_info,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _masked,
            _as_text if form == "text" else _as_json,
        ],
    )


# -- from a record to a line -------------------------------------------------------------------------------------------


def _add_record_fields(logger: object, name: str, event: Event) -> Event:
    """What the record itself knows, and whom the task serves that wrote it. Fields of the line win."""
    del logger, name
    record: logging.LogRecord | None = event.get("_record")
    if record is not None:
        event["level"], event["logger"] = record.levelname, record.name
    event.pop("color_message", None)  # of uvicorn: the same again, for a terminal
    found = current_task_context()._asdict()
    for field, value in found.items():
        if value is not None or field in _IDS:
            event.setdefault(field, value)
    return event


def mask_text(text: str) -> str:
    """The text without the secrets that `set_up` was told, and without what looks like one."""
    return _mask.text(text)


def _masked(logger: object, name: str, event: Event) -> Event:
    del logger, name
    clean: Event = _mask.value(event)
    return clean


def _as_json(logger: object, name: str, event: Event) -> str:
    del logger, name
    ordered = {field: event.pop(field) for field in _FIRST_FIELDS if field in event}
    return json.dumps(ordered | dict(event))


def _as_text(logger: object, name: str, event: Event) -> str:
    """For people: one line, the fields that have a value behind it, and a traceback below."""
    del logger, name
    head = [str(event.pop(field, "")) for field in ("timestamp", "level", "logger")]
    told, trace = _one_line(str(event.pop("event", ""))), event.pop("exception", None)
    fields = "".join(f" {name}={json.dumps(value)}" for name, value in event.items() if value is not None)
    return f"{' '.join(head)}: {told}{fields}" + (f"\n{trace}" if trace else "")


def _one_line(text: str) -> str:
    """What a site or a caller has written must not look like lines of ours, nor move the cursor."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
