"""Bad tapes: one line that says where and what to do, and it comes soon."""

import json
import os
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staleloc.models.config import Config
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator.events import AllocExtend, BeginForward, Clear, WriteKv
from staleloc.sim.tapes.codec import MAX_BYTES, TapeError, dumps, load, loads

TEXT = dumps(Tape(Config(), (AllocExtend(((0, 4),)), BeginForward(((0, 0, 4),)), WriteKv(1), Clear()), {"seed": 1}))

LAYER = '"layer": 1'
CUT = "if the file was cut short, get it again"
SCHEMA = "see tape.schema.json"

# What is replaced in TEXT, by what, and the line.
FAULTS = {
    "empty": (TEXT, "", f"line 1 column 1: not JSON (Expecting value); {CUT}"),
    "cut short": (TEXT[300:], "", f"line 7 column 11: not JSON (Unterminated string starting at); {CUT}"),
    "other JSON": (TEXT, "[]", 'not a tape; one is an object with "format": "staleloc-tape"'),
    "other format": ("-tape", "", 'not a tape; one is an object with "format": "staleloc-tape"'),
    "newer": ('n": 1', 'n": 2', "tape version 2, and this staleloc reads 1; install a newer staleloc"),
    "no version": ('n": 1', 'n": "1"', "tape version '1' does not exist; \"version\" must be 1"),
    "true version": ('n": 1', 'n": true', 'tape version True does not exist; "version" must be 1'),
    "unknown part": (
        '"events"',
        '"x": 0, "events"',
        f"$: Additional properties are not allowed ('x' was unexpected); {SCHEMA}",
    ),
    "config": (
        '"page_size": 1',
        '"page_size": 5',
        "$.config: full_size must be a positive multiple of page_size 5, not 32",
    ),
    "misspelt event": (
        "write_kv",
        "wirte_kv",
        "event 3: $.events[2]: no event is called 'wirte_kv'; did you mean write_kv or read_kv?",
    ),
    "no event": (
        '"event": "clear"',
        "",
        'event 4: $.events[3]: {} names no event; it must be an object with "event": NAME',
    ),
    "missing field": (
        ", " + LAYER,
        "",
        f"event 3: $.events[2]: 'layer' is a required property; {SCHEMA}",
    ),
    "unknown field": (
        LAYER,
        LAYER + ', "color": 1',
        f"event 3: $.events[2]: Additional properties are not allowed ('color' was unexpected); {SCHEMA}",
    ),
    "negative": (
        LAYER,
        '"layer": -1',
        f"event 3: $.events[2].layer: -1 is less than the minimum of 0; {SCHEMA}",
    ),
    "large": (
        LAYER,
        '"layer": 1048577',
        f"event 3: $.events[2].layer: 1048577 is greater than the maximum of 1048576; {SCHEMA}",
    ),
    "400 digits": (LAYER, LAYER + "0" * 400, "an integer of 401 digits; write it with at most 40"),
    "9999 digits": (LAYER, LAYER + "0" * 9999, "an integer of 10000 digits; write it with at most 40"),
    "float": (LAYER, LAYER + ".0", f"event 3: $.events[2].layer: 1.0 is not of type 'integer'; {SCHEMA}"),
    "bool": (LAYER, '"layer": true', f"event 3: $.events[2].layer: True is not of type 'integer'; {SCHEMA}"),
    "nan": (LAYER, '"layer": NaN', "NaN is not JSON; write a number, or null"),
    "overflow": (LAYER, LAYER + "e999", "the number '1e999' is too large; write a smaller one"),
    "twice": (LAYER, LAYER + ", " + LAYER, "the name 'layer' occurs twice in one object; remove one"),
    "short span": ("[0, 0, 4]", "[0, 4]", f"event 2: $.events[1].spans[0]: [0, 4] is too short; {SCHEMA}"),
    "unknown word": (
        "fresh",
        "stale",
        f"event 2: $.events[1].storage: 'stale' is not one of ['fresh', 'reused', 'view']; {SCHEMA}",
    ),
    "escape codes": (
        LAYER,
        '"layer": "\\u001b[2J\\n"',
        rf"event 3: $.events[2].layer: '\x1b[2J\n' is not of type 'integer'; {SCHEMA}",
    ),
    "deep": (
        LAYER,
        '"layer": ' + "[" * 99999,
        "lists or objects are nested too deeply; give a tape that staleloc wrote",
    ),
    "deep provenance": (
        '"seed": 1',
        '"seed": ' + "[" * 17 + "]" * 17,
        "$.provenance: more than 16 levels of lists and objects; make it flatter",
    ),
    "many events": (
        '{"event": "clear"}',
        ",".join(['{"event": "clear"}'] * 100_000),
        "100003 events, and a tape has at most 100000; keep the events up to the divergence and drop the others",
    ),
}


def refusal(text: str) -> str:
    """The line with which a text is refused, its name taken off."""
    with pytest.raises(TapeError) as caught:
        loads(text, "t.json")
    line = str(caught.value)
    assert line.startswith("t.json: ")
    assert line.isprintable()
    assert len(line) < 500
    return line.removeprefix("t.json: ")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_gives_one_line(fault):
    """Each fault is told in one line, word for word."""
    old, new, line = FAULTS[fault]
    assert old in TEXT
    assert refusal(TEXT.replace(old, new)) == line


def test_an_unknown_event_lists_the_known_ones():
    """Where no name is near, all are told."""
    assert "no event is called 'zzz'; tape.schema.json lists those there are" in refusal(
        TEXT.replace("write_kv", "zzz")
    )


@pytest.mark.parametrize("junk", [["x" * 100] * 1000, "x" * 100_000])
def test_a_long_value_is_cut(junk):
    """However long the wrong value, the line stays short."""
    assert "$.events[2].layer: " in refusal(TEXT.replace(LAYER, f'"layer": {json.dumps(junk)}'))


def test_a_long_list_is_refused():
    """A batch has a limit too."""
    assert "is too long" in refusal(TEXT.replace("[0, 4]", ", ".join(["[0, 4]"] * 5000)))


def test_a_long_text_is_refused():
    """A text over the limit is not even parsed."""
    assert refusal(" " * (MAX_BYTES + 1)).startswith(
        f"{MAX_BYTES + 1} characters, and a tape has at most {MAX_BYTES}; "
    )


@pytest.mark.parametrize(
    "text",
    [
        "[" + "[]," * 3_000_000,
        "{" + ",".join(f'"{key}": 0' for key in range(500_000)) + ', "499999": 0}',
        TEXT.replace("write_kv", "w" * 10_000_000),
        TEXT.replace("[0, 4]", ",".join(["[0, 4]"] * 1_000_000)),
    ],
    ids=["lists", "names", "long name", "long batch"],
)
def test_a_large_fault_is_found_soon(text):
    """No text under the size limit keeps the reader busy: nothing in it is quadratic."""
    start = time.perf_counter()
    refusal(text)
    assert time.perf_counter() - start < 30


JUNK = st.sampled_from(
    ["", "[", "]", "{", "}", ",", ":", '"', "-1", "1.5", "null", "true", "1e9", "\\u0000", "é", "NaN"]
)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(TEXT)), st.integers(0, 40), JUNK)
def test_damage_gives_a_tape_or_one_line(start, length, junk):
    """Wherever a file is damaged, it is a tape or it is refused; nothing else is ever raised."""
    text = TEXT[:start] + junk + TEXT[start + length :]
    try:
        loads(text)
    except TapeError:
        refusal(text)


def test_a_pipe_is_refused(tmp_path):
    """A FIFO without a writer is refused and not waited for."""
    os.mkfifo(tmp_path / "tape")
    program = "import sys; from staleloc.sim.tapes.codec import load; load(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "tape"], capture_output=True, text=True, timeout=60
    )
    assert done.stderr.endswith("tape: not a regular file; give the path of a tape file\n")


def unreadable(tmp_path):
    """Things that are no file with a tape: (path, end of the line)."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "latin").write_bytes(TEXT.replace("seed", "s\xe9").encode("latin-1"))
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    return [
        (tmp_path, ": cannot be read (Is a directory); give the path of a tape file"),
        (tmp_path / "none", ": cannot be read (No such file or directory); give the path of a tape file"),
        (tmp_path / "loop", ": cannot be read (Too many levels of symbolic links); give the path of a tape file"),
        (tmp_path / "latin", " is not UTF-8; give a tape file, or get this one again"),
        (tmp_path / "huge", f": {1 << 40} bytes, and a tape has at most {MAX_BYTES}; "
         "keep the events up to the divergence and drop the others"),
        ("/dev/zero", "/dev/zero: not a regular file; give the path of a tape file"),
        ("a\0b", r"'a\x00b': no file name (embedded null byte); give the path of a tape file"),
        ("", "'': cannot be read (No such file or directory); give the path of a tape file"),
    ]  # fmt: skip


def test_what_is_no_file_is_refused(tmp_path):
    """Directories, devices, missing, huge and unreadable files are refused in one line each."""
    for path, end in unreadable(tmp_path):
        with pytest.raises(TapeError) as caught:
            load(path)
        assert str(caught.value).endswith(end)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(tmp_path):
    """A file that may not be read is refused in one line."""
    path = tmp_path / "tape.json"
    path.touch(mode=0)
    with pytest.raises(TapeError, match=r"cannot be read \(Permission denied\); give the path of a tape file$"):
        load(path)
