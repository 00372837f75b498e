"""The steps of a recording: one model for each action, told apart by `do`; and the keys that `press` knows."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from swath.recordings.schema.models import Condition, ElementStep, FieldName, PageStep, Rule, Seconds, Step
from swath.recordings.schema.selectors import Selectors
from swath.recordings.schema.template import Text

__all__ = [
    "KEYS",
    "MODIFIERS",
    "MOST_NAME_BYTES",
    "AnyStep",
    "Back",
    "Check",
    "Click",
    "CloseWindow",
    "DoubleClick",
    "Download",
    "Extract",
    "ForEach",
    "Forward",
    "Goto",
    "Hover",
    "If",
    "JavaScript",
    "NetworkConditions",
    "Press",
    "Reload",
    "RepeatUntil",
    "SavePage",
    "Screenshot",
    "Scroll",
    "Select",
    "Stop",
    "Try",
    "Type",
    "Upload",
    "Viewport",
    "WaitFor",
    "is_of_another_keyboard",
    "is_pressable",
]

MODIFIERS: Final = frozenset({"Alt", "Control", "ControlOrMeta", "Meta", "Shift"})

_NAMED: Final = (
    "Alt AltGraph AltLeft AltRight ArrowDown ArrowLeft ArrowRight ArrowUp AudioVolumeDown AudioVolumeMute AudioVolumeUp"
    " Backquote Backslash Backspace BracketLeft BracketRight CapsLock Comma ContextMenu Control ControlLeft"
    " ControlOrMeta ControlRight Delete End Enter Equal Escape Home Insert MediaPlayPause MediaTrackNext"
    " MediaTrackPrevious Meta MetaLeft MetaRight Minus NumLock NumpadAdd NumpadDecimal NumpadDivide NumpadEnter"
    " NumpadMultiply NumpadSubtract PageDown PageUp Pause Period PrintScreen Quote ScrollLock Semicolon Shift ShiftLeft"
    " ShiftRight Slash Space Tab"
)
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_DIGITS: Final = "0123456789"

KEYS: Final = frozenset(
    {
        *_NAMED.split(),
        *(f"F{number}" for number in range(1, 13)),
        *(f"Digit{digit}" for digit in _DIGITS),
        *(f"Numpad{digit}" for digit in _DIGITS),
        *(f"Key{letter.upper()}" for letter in _LETTERS),
        *_LETTERS,
        *_LETTERS.upper(),
        *_DIGITS,
        *" `~!@#$%^&*()-_=+\\|[]{};:'\",<.>/?\n\r",
    }
)


def is_pressable(key: str, *, held: bool) -> bool:
    """Whether there is such a key. Several at once (`Control+a`) can be pressed, but not held or let go."""
    *before, last = _at_once(key)
    if not before and is_of_another_keyboard(last):
        return True
    return last in KEYS and (not before or (not held and MODIFIERS.issuperset(before)))


def is_of_another_keyboard(key: str) -> bool:
    """Whether it is one character that the driver's keyboard lacks."""
    return len(key) == 1 and not key.isascii() and key.isprintable()


def _at_once(key: str) -> list[str]:
    """`+` is between keys, and a key itself: `Control++`."""
    if key.endswith("++"):
        return [*key[:-2].split("+"), "+"]
    return [key] if key == "+" else key.split("+")


Pixels = Annotated[float, Field(ge=-1_000_000, le=1_000_000, allow_inf_nan=False)]
StoredName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
MOST_NAME_BYTES: Final = 255
"""Of a file; file systems know no longer ones."""
FileText = Annotated[Text, Field(min_length=1, max_length=500)]


class Goto(Step):
    """Opens an address in the main window; one without a host belongs to the recording's `base_url`."""

    do: Literal["goto"]
    url: Annotated[Text, Field(min_length=1, max_length=32_768)]
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    optional: bool = False


class Back(PageStep):
    """To the page before."""

    do: Literal["back"]


class Forward(PageStep):
    """To the page after."""

    do: Literal["forward"]


class Reload(PageStep):
    """The same page again."""

    do: Literal["reload"]


class _Pressed(ElementStep):
    button: Literal["primary", "auxiliary", "secondary", "back", "forward"] = "primary"
    device: Literal["mouse", "pen", "touch"] = "mouse"
    offset_x: Pixels | None = Field(default=None, description="From the left of the element; else its middle.")
    offset_y: Pixels | None = None
    hold_ms: Annotated[float, Field(ge=0, le=60_000, allow_inf_nan=False)] | None = None


class Click(_Pressed):
    """Clicks on an element."""

    do: Literal["click"]


class DoubleClick(_Pressed):
    """Clicks on it twice."""

    do: Literal["double_click"]


class Hover(ElementStep):
    """Moves the mouse there, for menus that open by it."""

    do: Literal["hover"]


class Type(ElementStep):
    """Gives a field its value as a person would: types into a box, picks in a list, sets a colour or a date."""

    do: Literal["type"]
    text: Annotated[Text, Field(max_length=100_000)]


class Press(PageStep):
    """A key, by the name that Chrome has for it: `Enter`, `Tab`, `a`. `how` is for keys that are held."""

    do: Literal["press"]
    key: Annotated[str, Field(min_length=1, max_length=50)]
    how: Literal["press", "down", "up"] = "press"


class Select(ElementStep):
    """Picks one of a list: by its value, or by what a person reads there."""

    do: Literal["select"]
    option: Annotated[Text, Field(max_length=10_000)]


class Check(ElementStep):
    """Ticks a box, or clears it."""

    do: Literal["check"]
    checked: bool = True


class Upload(ElementStep):
    """Gives a field a file out of the folder `files` beside the recording, by its name alone."""

    do: Literal["upload"]
    file: FileText


class Scroll(PageStep):
    """To a position of the window, or of an element; without one until the element is in sight, or to the end."""

    do: Literal["scroll"]
    on: Selectors | None = None
    x: Pixels | None = None
    y: Pixels | None = None


class WaitFor(PageStep):
    """Waits for one thing: an element (`on`), a `text`, a `url`, rest on the network, or some seconds."""

    do: Literal["wait_for"]
    on: Selectors | None = None
    state: Literal["visible", "hidden", "attached", "detached"] = "visible"
    count: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    compare: Literal[">=", "==", "<="] = ">="
    attributes: dict[str, Text] | None = Field(default=None, max_length=50)
    properties: dict[str, Any] | None = Field(default=None, max_length=50)
    text: Annotated[Text, Field(min_length=1, max_length=1_000)] | None = None
    url: Annotated[Text, Field(min_length=1, max_length=4_096)] | None = Field(
        default=None, description="A part of the address; * stands for anything."
    )
    network_idle: bool = False
    seconds: Seconds | None = None

    @model_validator(mode="after")
    def _waits_for_one_thing(self) -> Self:
        given = [
            self.on is not None,
            self.text is not None,
            self.url is not None,
            self.network_idle,
            bool(self.seconds),
        ]
        if sum(given) != 1:
            raise ValueError("wait_for needs one of on, text, url, network_idle and seconds")
        if self.on is None and (self.count is not None or self.attributes or self.properties):
            raise ValueError("count, attributes and properties are those of an element: name it with on")
        return self


class Extract(PageStep, Rule):
    """Reads a value, by a rule, into the field of that name. The page it stands on is stored, under `page` if named."""

    do: Literal["extract"]
    field: FieldName
    page: StoredName | None = None


class Screenshot(PageStep):
    """Stores a picture of what is in sight, or of all of the page."""

    do: Literal["screenshot"]
    file: FileText = "screenshot.png"
    full_page: bool = False


class SavePage(PageStep):
    """Stores the page as it stands there."""

    do: Literal["save_page"]
    page: StoredName


class Download(PageStep):
    """Stores the file that a click leads to, or that is at an address; by our own name for it."""

    do: Literal["download"]
    file: FileText
    on: Selectors | None = None
    url: Annotated[Text, Field(min_length=1, max_length=32_768)] | None = None
    content_type: Annotated[str, Field(max_length=200)] | None = None

    @model_validator(mode="after")
    def _comes_from_somewhere(self) -> Self:
        if (self.on is None) == (self.url is None):
            raise ValueError("download needs either on, what is clicked, or url")
        return self


class Viewport(Step):
    """The size of the window, or of the one that `target` names."""

    do: Literal["set_viewport"]
    width: Annotated[int, Field(ge=100, le=10_000)]
    height: Annotated[int, Field(ge=100, le=10_000)]
    scale: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)] = 1.0
    mobile: bool = False
    touch: bool = False
    landscape: bool = False
    target: Text = "main"


class NetworkConditions(Step):
    """A slower network, in bytes a second and milliseconds; none at all when both rates are 0, as before at -1."""

    do: Literal["network_conditions"]
    download: Annotated[float, Field(ge=-1, le=1e12, allow_inf_nan=False)]
    upload: Annotated[float, Field(ge=-1, le=1e12, allow_inf_nan=False)]
    latency_ms: Annotated[float, Field(ge=0, le=60_000, allow_inf_nan=False)]


class CloseWindow(PageStep):
    """Closes a window; the one below is in front again."""

    do: Literal["close"]


class JavaScript(PageStep):
    """Runs a script of the recording, which only the operator of this machine can allow. `until_true`: again and again
    until it says something true. In its `own` world it sees the page but not the variables of the page's scripts, which
    then cannot notice it; in that of the `page` it does, as Chrome's recordings do."""

    do: Literal["javascript"]
    code: Annotated[str, Field(min_length=1, max_length=100_000)]
    until_true: bool = False
    world: Literal["own", "page"] = "own"


class If(Step):
    """Steps for the case that a condition holds, and others for the case that it does not."""

    do: Literal["if"]
    condition: Condition
    then: tuple[AnyStep, ...] = ()
    otherwise: tuple[AnyStep, ...] = Field(default=(), alias="else")


class ForEach(Step):
    """The same steps for each element that matches (`on`), or for each of some `values`; at most so many.

    In it `{{ loop.index }}` counts from 1, and `{{ loop.value }}` is the value, or the text of the element. `collect`
    names the field that gets a list of records, one for each turn, of what is extracted inside. With `flatten`, the
    name of a table or list among these, it gets the rows of all turns as one list, each with what else its turn has.
    """

    do: Literal["for_each"]
    on: Selectors | None = None
    values: tuple[Annotated[Text, Field(max_length=10_000)], ...] | None = Field(default=None, max_length=1_000)
    steps: tuple[AnyStep, ...] = Field(min_length=1)
    most: Annotated[int, Field(ge=1, le=1_000)] = 100
    collect: FieldName | None = None
    flatten: FieldName | None = None
    target: Text = "main"
    frame: tuple[Annotated[int, Field(ge=0, le=1_000)], ...] | None = Field(default=None, max_length=10)

    @model_validator(mode="after")
    def _goes_over_something(self) -> Self:
        if (self.on is None) == (self.values is None):
            raise ValueError("for_each needs either on, the elements, or values")
        return self


class RepeatUntil(Step):
    """The same steps until a condition holds, at most so many times; more is a failure. The condition is looked at
    after the last step that reads something and before those that lead on; where none reads, before each turn.
    `collect` and `flatten` as in for_each."""

    do: Literal["repeat_until"]
    condition: Condition
    steps: tuple[AnyStep, ...] = Field(min_length=1)
    most: Annotated[int, Field(ge=1, le=1_000)] = 100
    collect: FieldName | None = None
    flatten: FieldName | None = None


class Try(Step):
    """Steps that may fail; then others are done in their place."""

    do: Literal["try"]
    steps: tuple[AnyStep, ...] = Field(min_length=1)
    otherwise: tuple[AnyStep, ...] = Field(default=(), alias="else")


class Stop(Step):
    """Ends the recording for this item: with what there is, with `not_found`, or as a failure with a message."""

    do: Literal["stop"]
    outcome: Literal["success", "not_found", "failed"] = "success"
    message: Annotated[Text, Field(max_length=1_000)] = ""


AnyStep = Annotated[
    Goto
    | Back
    | Forward
    | Reload
    | Click
    | DoubleClick
    | Hover
    | Type
    | Press
    | Select
    | Check
    | Upload
    | Scroll
    | WaitFor
    | Extract
    | Screenshot
    | SavePage
    | Download
    | Viewport
    | NetworkConditions
    | CloseWindow
    | JavaScript
    | If
    | ForEach
    | RepeatUntil
    | Try
    | Stop,
    Field(discriminator="do"),
]

for _model in (If, ForEach, RepeatUntil, Try):
    _model.model_rebuild()
