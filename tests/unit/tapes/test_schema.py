"""The published schemas: up to date, sound, and of one mind with the reader."""

import json
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staleloc.models.config import Config, ConfigError
from staleloc.sim.core.divergence import CLASSES
from staleloc.sim.core.event import Event
from staleloc.sim.core.schema import schema_of
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator.events import AllocDecode, AllocExtend, BeginForward, Move, Translate, WriteKv
from staleloc.sim.tapes import schema
from staleloc.sim.tapes.codec import TapeError, loads, to_json

SIM = Path(__file__).parents[3] / "sim"
FILES = {"tape": SIM / "tapes", "summary": SIM / "findings"}

SCHEMAS = {"tape": schema.tape_schema(), "summary": schema.summary_schema()}

TAPE = to_json(
    Tape(
        Config(),
        (
            AllocExtend(((0, 4), (1, 3))),
            AllocDecode((0, 1)),
            BeginForward(((0, 0, 4),)),
            WriteKv(1),
            Translate("fresh", 0, 0, 2),
            Move(0, 0, 2, 1),
        ),
    )
)

SUMMARY = {
    "target": "builtin:memo",
    "release": None,
    "seed": 7,
    "verdict": "divergence",
    "causes": [
        {
            "class": "stale-translation",
            "check": "translate",
            "place": None,
            "tapes": 3,
            "findings": 1,
            "not_shrunk": 2,
            "shortest": 0,
        }
    ],
    "divergences": [
        {
            "class": "stale-translation",
            "check": "translate",
            "cause": 1,
            "calls": ["engine/cache.py:7 Cache.free"],
            "event": 6,
            "minimal_length": 6,
            "sentence": "The translation of loc 4 outlived event 3.",
            "tape": TAPE,
        }
    ],
    "tapes": 12,
    "events": 480,
    "applied": 470,
    "skipped": 10,
    "seconds": 0.5,
    "events_per_second": 960.0,
    "situations": {"freed while cached": 3},
}

CLEAN = {**SUMMARY, "verdict": "clean", "divergences": []}


def valid(name, values):
    """Whether JSON Schema accepts the values."""
    return jsonschema.Draft202012Validator(SCHEMAS[name]).is_valid(values)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_file_is_up_to_date(name):
    """The checked-in schema is the one the dataclasses give; `python -m staleloc.sim.cli.schemas` writes it."""
    current = (FILES[name] / f"{name}.schema.json").read_text(encoding="utf-8") == schema.dumps(SCHEMAS[name])
    assert current, "run python -m staleloc.sim.cli.schemas"


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_is_one(name):
    """Each schema is sound under the dialect it names."""
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


def test_an_event_outside_the_format_is_refused():
    """An event field that a tape cannot hold is an error of the build, not a hole in the schema."""

    @dataclass(frozen=True)
    class Sleep(Event):
        kind = "sleep"
        seconds: float

    with pytest.raises(TypeError, match="field 'seconds': a tape cannot hold <class 'float'>"):
        schema_of(Sleep)


def places(values, path=()):
    """The path of every value in a JSON tree, the root left out."""
    items = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


JUNK = st.sampled_from(
    [None, True, False, 0, 1, -1, 1.0, 1.5, 1 << 20, (1 << 20) + 1, "", "swa", "fresh", "fresh\n", "write_kv", "Native"]
) | st.recursive(st.integers(-1, 9), lambda items: st.lists(items, max_size=4), max_leaves=6)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(list(places(TAPE))), JUNK, st.sampled_from(["replace", "remove", "rename"]))
def test_reader_and_schema_agree(path, junk, way):
    """The reader takes exactly the tapes that the schema and the config's own rules take, but for floats like 1.0."""
    values = json.loads(json.dumps(TAPE))
    *parents, last = path
    holder = values
    for key in parents:
        holder = holder[key]
    if way == "replace":
        holder[last] = junk
    elif way == "remove":
        del holder[last]
    elif isinstance(holder, dict):
        holder[f"{last}_"] = holder.pop(last)
    text = json.dumps(values)
    try:
        read = to_json(loads(text))
    except TapeError:
        assert not valid("tape", values) or "1.0" in text or not buildable(values["config"])
    else:
        assert valid("tape", values)
        assert read["events"] == [
            {**full, **given} for full, given in zip(read["events"], values["events"], strict=True)
        ]


def buildable(config):
    """Whether the config's own rules accept it."""
    try:
        Config(**{key: tuple(value) if isinstance(value, list) else value for key, value in config.items()}).check()
    except ConfigError:
        return False
    return True


def test_summaries_are_valid():
    """A summary with and one without divergences pass, whatever the class."""
    assert valid("summary", SUMMARY)
    assert valid("summary", CLEAN)
    for name in CLASSES:
        assert valid("summary", {**SUMMARY, "divergences": [{**SUMMARY["divergences"][0], "class": name}]})


@pytest.mark.parametrize("key", SUMMARY)
def test_a_summary_has_exactly_its_keys(key):
    """No key of a summary may be missing, and none may be added."""
    assert not valid("summary", {name: value for name, value in SUMMARY.items() if name != key})
    assert not valid("summary", {**SUMMARY, f"{key}_": 0})


@pytest.mark.parametrize("key", SUMMARY["divergences"][0])
def test_a_divergence_has_exactly_its_keys(key):
    """No key of a divergence may be missing or null."""
    entry = SUMMARY["divergences"][0]
    assert not valid("summary", {**SUMMARY, "divergences": [{k: v for k, v in entry.items() if k != key}]})
    assert not valid("summary", {**SUMMARY, "divergences": [{**entry, key: None}]})


def test_verdict_and_divergences_go_together():
    """A clean summary holds no divergence; the other verdict holds one."""
    assert not valid("summary", {**SUMMARY, "verdict": "clean"})
    assert not valid("summary", {**CLEAN, "verdict": "divergence"})


def test_a_summary_checks_its_tapes():
    """The tape of a divergence is held to the tape's schema."""
    entry = {**SUMMARY["divergences"][0], "tape": {**TAPE, "events": [{"event": "nothing"}]}}
    assert not valid("summary", {**SUMMARY, "divergences": [entry]})
