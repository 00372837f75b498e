"""The keys that `press` knows: those of Chrome's keyboard, by name or by the character on them, alone or held together.

The names are those that recorders write and the browser's driver takes. A character that is on no key of an American
keyboard (`é`, `日`) is one of somebody else's.
"""

from __future__ import annotations

from typing import Final

__all__ = ["KEYS", "MODIFIERS", "is_of_another_keyboard", "is_pressable"]

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
