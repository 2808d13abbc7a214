"""Strict JSON: each text has one meaning, or is refused with one line."""

from __future__ import annotations

import json
import math

__all__ = ["JsonError", "parse", "short"]

MAX_DIGITS = 40
"""Decimal digits of an integer: room for a seed of 128 bits."""


class JsonError(ValueError):
    """A text that is no JSON; the message states the place and the remedy."""


def parse(text: str) -> object:
    """The value of a text.

    Raises:
        JsonError: it is no JSON, or is ambiguous between readers.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise JsonError(f"{where}: not JSON ({error.msg}); if the file was cut short, get it again") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in pairs:
        if name in values:
            raise JsonError(f"the name {short(name)} stands twice in one object; remove one")
        values[name] = value
    return values


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise JsonError(f"an integer of {len(digits)} digits; write it with at most {MAX_DIGITS}")
    return int(digits)


def _float(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise JsonError(f"the number {short(digits)} is too large; write a smaller one")
    return value


def _constant(name: str) -> object:
    raise JsonError(f"{name} is not JSON; write a number, or null")


def short(value: object) -> str:
    """A value for a message, not too long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."
