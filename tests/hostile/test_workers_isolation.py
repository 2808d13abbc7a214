"""What a worker gets of its machine: no secrets, an empty folder, limits, no network, and an end with its parent."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import warm

from staleloc.sim.run import isolation, process
from staleloc.sim.run.isolation import Isolation, environment_of
from staleloc.sim.run.process import ChildProcess
from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.family import user_path

SECRETS = 120
"""Generated names of secrets."""

Ask = Callable[[str], Any]

HEAD = """
import json, os, resource, socket, sys
from staleloc.sim.run.isolation import Isolation, enter
enter(Isolation(sys.argv[2]), int(sys.argv[1]))
nonce = json.loads(sys.stdin.readline())["nonce"]
def answer(value):
    print(f"{nonce} 0 {json.dumps({'value': value})}", flush=True)
"""


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """The value of an expression in a worker that has entered its isolation."""
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))

    def call(expression: str) -> Any:
        (tmp_path / "fake_worker.py").write_text(f"{HEAD}answer({expression})\n", encoding="utf-8")
        with ChildProcess("fake_worker") as worker:
            worker.send({})
            return worker.receive(60.0)["value"]

    yield call
    isolation.choose(Isolation.USUAL)


def secret(draw: random.Random) -> str:
    """A name as secrets have."""
    words = ("AWS", "GITHUB", "HF", "OPENAI", "SGLANG", "MY", "TORCH", "CI", "NPM", "PYPI", "DB", "STALELOC", "SSH")
    ends = ("TOKEN", "API_KEY", "SECRET", "PASSWORD", "ACCESS_KEY", "CREDENTIALS", "AUTH", "PRIVATE_KEY", "COOKIE")
    name = "_".join([*draw.choices(words, k=draw.randrange(1, 3)), draw.choice(ends)])
    return name if draw.random() < 0.9 else name.lower()


def test_no_secret_of_the_environment_reaches_a_worker() -> None:
    """Neither under a name that is not on the list, nor under one that ends like a secret."""
    draw = random.Random(0)
    user = {secret(draw): f"hush-{number}" for number in range(SECRETS)}
    user |= {"SSH_AUTH_SOCK": "hush", "DATABASE_URL": "hush", "http_proxy": "hush", "KUBECONFIG": "hush"}
    given = environment_of("folder", user, Isolation.USUAL)
    assert not [name for name, value in given.items() if "hush" in value]
    assert environment_of("folder", user, Isolation.TRUSTED).items() >= user.items()


def test_what_engines_need_is_kept() -> None:
    """Paths, locale, threads and switches of torch and SGLang, and a relative path as the user meant it."""
    needed = {
        **{"PATH": "/bin", "LANG": "C", "LC_ALL": "C", "TZ": "UTC", "LD_LIBRARY_PATH": "/opt/lib"},
        **{"MKL_NUM_THREADS": "2", "TORCH_LOGS": "x", "SGLANG_INIT_NEW_TOKEN_RATIO": "0.5", "STALELOC_CACHE": "/c"},
    }
    given = environment_of("folder", {**needed, "PYTHONPATH": os.pathsep.join(["lib", "/abs", ""])}, Isolation.USUAL)
    assert given.items() >= needed.items()
    assert given["PYTHONPATH"].split(os.pathsep) == [str(Path("lib").absolute()), "/abs"]
    assert (given["HOME"], given["TMPDIR"], given["OMP_NUM_THREADS"]) == ("folder", "folder", "1")


def test_releases_are_found_where_the_user_has_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The cache and the user's packages stay where they are although the worker has another home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    user = {name: value for name, value in os.environ.items() if name != "STALELOC_CACHE"}
    given = environment_of("folder", user, Isolation.USUAL)
    assert given["STALELOC_CACHE"].startswith(str(tmp_path))


def test_a_worker_has_an_empty_folder_that_is_gone_with_it(ask: Ask) -> None:
    """It is the working directory, the home and the place of temporary files."""
    here, home, temporary, files = ask("[os.getcwd(), os.environ['HOME'], os.environ['TMPDIR'], os.listdir()]")
    assert (home, temporary, files) == (here, here, [])
    assert here != os.getcwd()
    assert not Path(here).exists()


def test_a_trusted_worker_has_what_the_user_has(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables, folder and home."""
    monkeypatch.setenv("MY_TOKEN", "hush")
    isolation.choose(Isolation.TRUSTED)
    asked = "[os.getcwd(), os.environ.get('HOME'), os.environ.get('MY_TOKEN')]"
    assert ask(asked) == [os.getcwd(), os.environ.get("HOME"), "hush"]


def test_a_worker_has_limits(ask: Ask) -> None:
    """No core files, and an end of files and of address space."""
    limits = ["RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_AS"]
    core, size, space = ask(f"[resource.getrlimit(getattr(resource, name))[0] for name in {limits}]")
    assert core == 0
    assert 0 < size <= isolation.FILE_SIZE
    assert 0 < space <= isolation.ADDRESS_SPACE


offline = pytest.mark.skipif(not isolation._can_leave_network(), reason="this system keeps the network")


@offline
def test_a_worker_has_no_network(ask: Ask) -> None:
    """Not even that of its own machine, on which somebody listens here."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"socket.socket().connect_ex(('127.0.0.1', {port}))"
        assert ask(reach) != 0
        isolation.choose(Isolation.OFFLINE)
        assert ask(reach) != 0
        isolation.choose(Isolation.TRUSTED)
        assert ask(reach) == 0


@offline
def test_a_worker_without_network_is_who_it_was(ask: Ask) -> None:
    """The same user and group, who may write where they could."""
    assert ask("[os.getuid(), os.getgid()]") == [os.getuid(), os.getgid()]


def test_a_system_that_cannot_take_the_network_away_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """If that was asked for; otherwise the worker has it."""
    monkeypatch.setattr(isolation, "_leave_network", lambda: False)
    with pytest.raises(TargetError, match="run the command without --no-network"):
        isolation.choose(Isolation.OFFLINE)
    assert isolation.chosen() is Isolation.USUAL


def test_paths_are_seen_from_the_folder_of_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker is elsewhere, and ``~`` is the user's home there too."""
    given = environment_of(str(tmp_path), os.environ, Isolation.USUAL)
    seen = [user_path(text) for text in ("a/b", "~/a", "/a", "~")]
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert [user_path(text) for text in ("a/b", "~/a", "/a", "~")] == seen
    with pytest.raises(TargetError, match="nobody-of-this-name"):
        user_path("~nobody-of-this-name/x")


PARENT = """
import sys, time
from staleloc.sim.run.process import ChildProcess
with ChildProcess("fake_worker") as worker:
    worker.send({})
    print(worker.receive(60.0)["value"], flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread looks after it, which may be kept from running")
@pytest.mark.parametrize("state", ["os.kill(os.getpid(), 19)", "sum(__import__('itertools').count())"])
def test_a_worker_ends_with_its_parent_in_any_state(tmp_path: Path, state: str) -> None:
    """Stopped, or in C code that keeps every other thread from running. Its folder is removed by a later run."""
    (tmp_path / "fake_worker.py").write_text(f"{HEAD}answer(os.getpid())\n{state}\n", encoding="utf-8")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    for _ in range(400):
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                break
        except OSError:
            break
        time.sleep(0.02)
    else:
        pytest.fail("the worker lives")
    (left,) = tmp_path.glob("staleloc-run-*")
    os.utime(left, (0, 0))
    process.Workspace("staleloc-run-", tmp_path).remove()
    assert not list(tmp_path.glob("staleloc-run-*"))


def test_nothing_is_written_beside_the_sources_of_a_checkout(tmp_path: Path) -> None:
    """What Python compiles of it lies in the cache."""
    package = tmp_path / "checkout" / "sglang" / "srt" / "mem_cache"
    package.mkdir(parents=True)
    (package / "probe.py").write_text("VALUE = 7\n", encoding="utf-8")
    script = tmp_path / "load.py"
    script.write_text(
        textwrap.dedent(
            """
            import importlib, json, sys
            from staleloc.sim.targets.sglang.fetch import resolve
            from staleloc.sim.targets.sglang.seal import seal
            sys.dont_write_bytecode = False
            release = resolve(f"sglang@{sys.argv[1]}")
            seal(release.name, release.root, {}, bytecode=release.bytecode)
            print(json.dumps(importlib.import_module("sglang.srt.mem_cache.probe").VALUE))
            """
        ),
        encoding="utf-8",
    )
    cache = tmp_path / "cache"
    done = warm.run([str(script), str(tmp_path / "checkout")], tmp_path, STALELOC_CACHE=str(cache))
    assert json.loads(done.stdout) == 7
    assert not list((tmp_path / "checkout").rglob("*.pyc"))
    assert [it.name.split(".")[0] for it in cache.rglob("*.pyc")] == ["probe"]
