"""Tapes: what is written is read back, and reads well."""

import json
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from staleloc.models.config import Config
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator.events import EVENTS, AllocExtend, BeginForward, Clear, WriteKv
from staleloc.sim.tapes.codec import dumps, load, loads, to_json
from staleloc.sim.tapes.schema import event_schemas

TAPE = Tape(
    Config(),
    (AllocExtend(((0, 4), (1, 3))), BeginForward(((0, 0, 4),), "view", 2), WriteKv(1), Clear()),
    {"seed": 2**70, "incident": {"title": "a → b", "pulls": [25824]}},
)

TEXT = """\
{
"format": "staleloc-tape",
"version": 1,
"config": {"pool": "hybrid", "policy": "native", "page_size": 1, "full_size": 32, "swa_size": 16, \
"layers": ["full", "swa"], "window": 8, "need_sort": false, "dtype": "float32"},
"events": [
{"event": "alloc_extend", "items": [[0, 4], [1, 3]]},
{"event": "begin_forward", "spans": [[0, 0, 4]], "storage": "view", "offset": 2, "precomputed": false},
{"event": "write_kv", "layer": 1},
{"event": "clear"}
],
"provenance": {
 "incident": {
  "pulls": [
   25824
  ],
  "title": "a \\u2192 b"
 },
 "seed": 1180591620717411303424
}
}
"""


def values(schema):
    """A strategy for the JSON values of an event's field."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "prefixItems" in schema:
        return st.tuples(*map(values, schema["prefixItems"]))
    if schema["type"] == "array":
        return st.lists(values(schema["items"]), max_size=3).map(tuple)
    if schema["type"] == "boolean":
        return st.booleans()
    return st.integers(schema["minimum"], schema["maximum"])


def events() -> st.SearchStrategy[Event]:
    """Events of every type, sound in form and mostly senseless."""
    return st.one_of(
        st.builds(event, **{k: values(v) for k, v in event_schemas()[event.kind]["properties"].items() if k != "event"})
        for event in EVENTS
    )


def test_the_file_reads_one_event_a_line():
    """The layout of a tape file is fixed, to the byte."""
    assert dumps(TAPE) == TEXT


@settings(max_examples=50, deadline=None)
@given(st.lists(events(), max_size=8))
def test_every_tape_comes_back(steps):
    """Any event of the alphabet survives the file."""
    tape = Tape(Config(page_size=4), tuple(steps))
    assert loads(dumps(tape)) == tape


def test_a_file_comes_back(tmp_path):
    """A tape is loaded from a path, with or without a byte order mark."""
    path = tmp_path / "tape.json"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text(TEXT, encoding=encoding)
        assert load(path) == load(str(path)) == TAPE


def test_equal_tapes_give_equal_files():
    """Neither the order of provenance keys nor the way a tape was made shows in its file."""
    other = Tape(Config(), TAPE.events, dict(reversed(list(TAPE.provenance.items()))))
    assert dumps(other) == dumps(loads(dumps(TAPE))) == TEXT


def test_a_tape_is_a_key():
    """Tapes are hashable, whatever their provenance."""
    assert hash(TAPE) == hash(Tape(Config(), TAPE.events))


def test_defaults_may_be_left_out():
    """A tape written by hand states what differs from the defaults only."""
    text = """{"format": "staleloc-tape", "version": 1, "config": {"window": 4},
               "events": [{"event": "begin_forward", "spans": []}]}"""
    assert loads(text) == Tape(Config(window=4), (BeginForward(()),), None)


def test_json_values_are_plain():
    """What `to_json` returns is what JSON returns: lists, not tuples."""
    assert to_json(TAPE) == json.loads(TEXT)


def test_provenance_can_be_shown():
    """A provenance cannot drive the terminal it is printed on; its newlines stay."""
    shown = loads(dumps(Tape(Config(), (), {"a\x1b[2J": ["x\x9by\nz", "\ud800"]}))).provenance
    assert shown == {"a\ufffd[2J": ["x\ufffdy\nz", "\ufffd"]}


def test_loading_is_quick():
    """A thousand events load in well under 0.3 seconds."""
    text = dumps(Tape(Config(), TAPE.events * 250))
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        loads(text)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.1
