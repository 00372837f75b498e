"""ActionScraper: a recording as a scraper. Its steps are played in a browser, its rules read the pages they stored.

The registry makes one of every recording that is named; a class that needs more than steps can extend it and name a
recording beside its own file. Nothing here needs the browser to be installed, as for BrowserScraper.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urljoin

from swath.actions.document import read_recording
from swath.actions.language.recording import Recording
from swath.actions.language.steps import Extract, Goto
from swath.actions.language.template import render
from swath.actions.language.walk import walk
from swath.actions.reading.read import read_record
from swath.domain.errors import BadInput, Failed
from swath.domain.failure import Failure, FailureKind
from swath.kit.browser_scraper import BrowserScraper
from swath.kit.pages import Pages
from swath.kit.recorded_models import input_model, output_model
from swath.kit.scraper import ScraperKind

if TYPE_CHECKING:
    from swath.actions.player.timing import StepTime
    from swath.browser.session.session import BrowserSession

__all__ = ["ActionScraper"]

_FILES: Final = "files"
_WISHES: Final = ("keep_session", "mobile", "block", "screenshot")


class ActionScraper(BrowserScraper):
    """See Scraper. `recording` is the name of a file beside the class, or what is in one.

    Input, Output, `base_url` and what it wishes of the browser follow from the recording, unless the class has its own.
    """

    kind: ClassVar[ScraperKind] = "recording"
    recording: ClassVar[Recording | str]
    files: ClassVar[Path | None] = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        given: object = vars(cls).get("recording")
        if given is None:
            return  # it extends one that has a recording, or is extended by one
        if isinstance(given, str):
            file = _beside(cls, given)
            # A class is code of the operator's already, which could do the same without a recording; the registry looks
            # again at what its own setting allows.
            given, cls.files = read_recording(file, javascript=True), file.parent / _FILES
        if not isinstance(given, Recording):
            raise BadInput(f'{cls.__name__}: recording must be the name of a file: write recording = "flow.yaml"')
        cls.recording = given
        followed = {wish: getattr(given, wish) for wish in _WISHES} | {"base_url": given.base_url}
        made = {"Input": input_model, "Output": output_model}
        for name in (*followed, *made):
            if name not in vars(cls):
                setattr(cls, name, followed[name] if name in followed else made[name](given))

    @classmethod
    def of(cls, recording: Recording, source: str | Path | None = None) -> type[ActionScraper]:
        """The scraper that a recording is. Files that it uploads are in `files` beside its `source`."""
        return type(
            "RecordedScraper",
            (cls,),
            {
                "__doc__": recording.description,
                "recording": recording,
                "files": None if source is None else Path(source).parent / _FILES,
                "id": recording.id,
                "name": recording.name or recording.id,
                "version": recording.version,
                "description": recording.description,
                "sites": recording.sites,
            },
        )

    def site_url(self) -> str | None:
        """What addresses without a host belong to. Override it where that is known only when an item is fetched."""
        return self.base_url

    def start_url(self, item: Any) -> str | None:
        """Where the first `goto` leads."""
        for placed in walk(self._recording()):
            if isinstance(placed.step, Goto):
                try:
                    url = render(placed.step.url, {"input": item.model_dump()})
                except KeyError:
                    break  # it depends on what earlier steps will find
                except ValueError as error:
                    message = f"step {placed.place} (goto {placed.step.url}): {error}"
                    raise Failed(Failure.of(FailureKind.INVALID_INPUT, message)) from None
                return urljoin(self.site_url() or "", url)
        return self.site_url()

    @property
    def has_extract(self) -> bool:
        """Whether anything is extracted."""
        return super().has_extract and any(isinstance(placed.step, Extract) for placed in walk(self._recording()))

    async def fetch(self, item: Any, browser: BrowserSession, /) -> None:
        """Plays the recording, which leaves its pages with the session; at least that on which it ends."""
        await self.play(item, browser)

    async def play(
        self,
        item: Any,
        browser: BrowserSession,
        *,
        watch: Callable[[StepTime], None] | None = None,
        pictures: bool = False,
    ) -> None:
        """The same for somebody who watches: each step is told when it is done, and with `pictures` one is taken."""
        from swath.actions.player.play import play  # noqa: PLC0415 the driver may not be installed where pages are read

        recording = self._recording().model_copy(update={"base_url": self.site_url()})
        await play(recording, item.model_dump(), browser, files=self.files, watch=watch, pictures=pictures)

    def extract(self, pages: Pages) -> Any:
        """The record of the item's stored pages."""
        return read_record(self._recording(), pages)

    def _recording(self) -> Recording:
        recording: object = getattr(self, "recording", None)
        if not isinstance(recording, Recording):
            raise BadInput(f'scraper "{self.id}" names no recording: write recording = "flow.yaml" in its class')
        return recording


def _beside(cls: type[ActionScraper], name: str) -> Path:
    """A file in the folder of the class."""
    module = inspect.getsourcefile(cls)
    if module is None:
        raise BadInput(f"{cls.__name__}: where {name} is cannot be told without a file of its own")
    return Path(module).parent / name
