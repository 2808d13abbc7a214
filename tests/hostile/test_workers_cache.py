"""The cache of releases: damaged entries cost a line each, and a fetch that ends early leaves nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import ended

from staleloc.sim.core.workspace import Workspace
from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.registry import families
from staleloc.sim.targets.sglang import fetch

RECORDS = 40
"""Generated records of entries."""

GOOD = {"name": "sglang==0.5.99", "version": "0.5.99", "sources_sha256": "x"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("STALELOC_CACHE", str(folder))
    return folder


def record(seed: int) -> bytes:
    """A record that is none: cut, of another shape, or with other values."""
    draw = random.Random(seed)
    good = json.dumps(GOOD).encode()
    field = draw.choice(list(GOOD))
    other = draw.choice((None, 1, [], {}, [GOOD], True))
    kinds = (
        good[: draw.randrange(len(good))],
        json.dumps({**GOOD, field: other}).encode(),
        json.dumps({name: value for name, value in GOOD.items() if name != field}).encode(),
        json.dumps(draw.choice((None, 1, "x", [], [GOOD], {}))).encode(),
        json.dumps({**GOOD, "version": draw.choice(("latest", "", "1..2", "../.."))}).encode(),
        draw.randbytes(draw.randrange(99)),
        b"[" * 10**5,
        good.decode().encode("utf-16"),
    )
    return kinds[seed % len(kinds)]


def test_a_damaged_entry_costs_one_line(cache: Path) -> None:
    """The others are listed; it is named, with what to do. A release that needs it says the same."""
    (cache / "sglang-0.5.99").mkdir()
    (cache / "sglang-0.5.99" / "release.json").write_text(json.dumps(GOOD), encoding="utf-8")
    for seed in range(RECORDS):
        (cache / f"sglang-0.4.{seed}").mkdir()
        (cache / f"sglang-0.4.{seed}" / "release.json").write_bytes(record(seed))
    (cache / "sglang-0.6").mkdir()
    (cache / "a-file").write_text("x", encoding="utf-8")
    (cache / "a-link").symlink_to("a-link")
    (cache / "sglang-0.7").mkdir()
    (cache / "sglang-0.7" / "release.json").mkdir()
    rows = dict(next(it for it in families() if it.name == "sglang").rows(lambda target: []))
    assert rows["sglang==0.5.99"] == "in the cache"
    damaged = [name for name, words in rows.items() if words == f"damaged; delete {cache / name}"]
    assert len(damaged) == RECORDS + 4


@pytest.mark.parametrize("seed", range(0, RECORDS, 5))
def test_a_release_whose_entry_is_damaged_says_which_folder_to_delete(cache: Path, seed: int) -> None:
    """It is not fetched over it, as that would hide what happened."""
    entry = cache / "sglang-0.5.99"
    entry.mkdir()
    (entry / "release.json").write_bytes(record(seed))
    with pytest.raises(TargetError, match="delete that folder") as raised:
        fetch.resolve("sglang==0.5.99")
    assert str(entry) in str(raised.value)


PIP = """
import os, sys, time
from pathlib import Path
folder = Path(sys.argv[sys.argv.index("--dest") + 1])
if os.fork() == 0:
    time.sleep(20)
(folder / "part.whl.tmp").write_text("half")
Path(os.environ["TMPDIR"], "unpacked").mkdir()
from staleloc.sim.core.lifetime import end_with_parent
end_with_parent(int(sys.argv[1]))
(folder.parent.parent / "pid").write_text(str(os.getpid()))
time.sleep(600)
"""

FETCH = """
import signal
from staleloc.sim.targets.sglang import fetch
signal.signal(signal.SIGTERM, signal.default_int_handler)
fetch._PIP = "fake_pip"
fetch.resolve("sglang==0.5.99")
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_fetch_ends_pip_and_leaves_nothing(cache: Path, tmp_path: Path, how: signal.Signals) -> None:
    """No process, no file; after SIGKILL the next fetch removes what is left, and does not wait a day."""
    (tmp_path / "fake_pip.py").write_text(PIP, encoding="utf-8")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    run = subprocess.Popen([sys.executable, "-c", FETCH], env=environment, stderr=subprocess.DEVNULL)
    note = tmp_path / "pid"
    while not (note.exists() and note.read_text(encoding="utf-8")):
        assert run.poll() is None
        time.sleep(0.02)
    os.kill(run.pid, how)
    assert run.wait() != 0
    assert ended(int(note.read_text(encoding="utf-8")))
    left = list(cache.iterdir())
    assert len(left) == (how == signal.SIGKILL)
    for folder in left:
        os.utime(folder, (0, 0))
    Workspace(".tmp-", cache).remove()
    assert list(cache.iterdir()) == []


def test_folders_of_runs_that_live_stay(tmp_path: Path) -> None:
    """However old they are; and so do those that are too new to be locked."""
    mine = Workspace(".tmp-", tmp_path)
    os.utime(mine.path, (0, 0))
    new = tmp_path / ".tmp-new"
    new.mkdir()
    Workspace(".tmp-", tmp_path).remove()
    assert {mine.path, new} == set(tmp_path.iterdir())
    mine.remove()
    assert not mine.path.exists()
