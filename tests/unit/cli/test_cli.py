"""The command line as a user meets it: what it prints, where, and with which exit code."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import warm

from staleloc.models.config import SWA, Config
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.parts.engine.events import Admit, Arrive, Decode
from staleloc.sim.run.player import find_tape
from staleloc.sim.run.progress import INTERVAL
from staleloc.sim.tapes.codec import dumps, load
from staleloc.sim.tapes.schema import summary_schema

COMMAND = [sys.executable, "-m", "staleloc.sim"]

MUTANT = "memo-drop-invalidate-register-mapping"

Run = Callable[..., subprocess.CompletedProcess[str]]

Spoil = Callable[[str], Path]


def campaign(folder: Path, *words: str, interval: float = INTERVAL) -> warm.Process:
    """A campaign of ten minutes in a process of its own, which hears Ctrl-C.

    Args:
        interval: seconds between two lines about its progress.
    """
    script = folder / "campaign.py"
    script.write_text(
        "from staleloc.sim.cli.main import main\n"
        "from staleloc.sim.run import progress\n"
        f"progress.INTERVAL = {interval}\n"
        "main()\n"
    )
    command = [str(script), "fuzz", "--seconds", "600", "--workers", "1", *words]
    with open(os.devnull) as nothing:
        return warm.Process(command, nothing, subprocess.PIPE, subprocess.PIPE, cwd=folder)


def ended(process: warm.Process, seconds: float) -> tuple[str, str]:
    """What a process wrote until its end, which comes within these seconds."""
    try:
        process.wait(seconds)
    finally:
        process.kill()
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as out, process.stderr as err:
        return out.read().decode(), err.read().decode()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command in an empty folder."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return warm.run(["-m", "staleloc.sim", *words], tmp_path)

    return call


@pytest.fixture
def stale_tape(tmp_path: Path) -> Path:
    """A tape on which `MUTANT` diverges."""
    config = Config(policy="memo", full_size=2, swa_size=2, layers=(SWA,), window=2)
    events = (
        ev.Alloc(0, 1),
        ev.BeginForward(((0, 0, 1),)),
        ev.WriteKv(0),
        ev.RegisterMapping(0, 0, 1),
        ev.Translate("batch", 0, 0, 1),
    )
    path = tmp_path / "stale.json"
    path.write_text(dumps(Tape(config, events)))
    return path


def without_times(text: str) -> str:
    return re.sub(r"[\d.]+ (events/s|s\b)", "N", text)


def test_help_needs_no_torch() -> None:
    program = (
        "import sys; sys.argv = ['staleloc', '--help']\n"
        "from staleloc.sim.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert 'torch' not in sys.modules and 'rich' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("nonsense", "No such command"),
        ("fuzz --nonsense", "No such option"),
        ("fuzz --target vllm", "unknown target 'vllm'"),
        ("fuzz --target builtin:nonsense", "no policy 'nonsense'"),
        ("fuzz --target sglang==not-a-version", "is not a version"),
        ("fuzz --target sglang@/nowhere", "holds no sglang"),
        ("fuzz --mutant nonsense", "no mutant 'nonsense'"),
        ("fuzz --tapes 1 --seconds 1", "give one"),
        ("fuzz --tapes 0", "--tapes"),
        ("fuzz --seconds nan", "--seconds"),
        ("fuzz --seconds -1", "--seconds"),
        ("fuzz --workers 0", "--workers"),
        ("fuzz --seed -1", "--seed"),
        ("fuzz --json nowhere/summary.json", "cannot be written"),
        ("fuzz --repro .", "is a directory"),
        ("replay nonsense", "no scenario of that name"),
        ("replay nowhere/tape.json", "cannot be read"),
        ("targets show nonsense", "unknown target"),
        ("targets add builtin", "names no SGLang"),
    ],
)
def test_an_error_is_one_line(run: Run, words: str, says: str) -> None:
    done = run(*words.split())
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"staleloc: [^\n]+\n", done.stderr)
    assert says in done.stderr


def test_a_file_that_cannot_be_written_is_found_out_before_the_campaign(run: Run, tmp_path: Path) -> None:
    (tmp_path / "staleloc-tapes").write_text("in the way")
    done = run("fuzz", "--seconds", "60")
    assert done.returncode == 2
    assert "staleloc-tapes" in done.stderr


@pytest.mark.parametrize("words", [(), ("targets",), ("mutants",)])
def test_a_group_alone_prints_its_help(run: Run, words: tuple[str, ...]) -> None:
    done = run(*words)
    assert (done.returncode, done.stderr) == (2, "")
    assert "Usage: staleloc" in done.stdout


def test_a_hostile_tape_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tape.json").write_text('{"format": "staleloc-tape", "version": 1, "config": {}, "events": [{}]}')
    done = run("replay", "tape.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("staleloc: tape.json: ")


def test_the_builtin_is_clean(run: Run, tmp_path: Path) -> None:
    done = run("fuzz", "--tapes", "48", "--workers", "1", "--json", "summary.json", "--repro", "repro.py")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "builtin, seed 0: no divergence"
    assert re.fullmatch(r"48 tapes, \d+ events, \d+ events/s, \d+\.\d s", lines[1])
    summary = json.loads((tmp_path / "summary.json").read_text())
    jsonschema.validate(summary, summary_schema())
    assert (summary["verdict"], summary["tapes"], summary["seed"]) == ("clean", 48, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_a_finding_is_reported_saved_and_replayed(run: Run, tmp_path: Path) -> None:
    done = run("fuzz", "--mutant", MUTANT, "--tapes", "160", "--first", "--json", "summary.json", "--repro", "repro.py")
    assert done.returncode == 1
    assert done.stdout.startswith(f"stale-translation in builtin with mutant {MUTANT}, hybrid pool")
    (saved,) = (tmp_path / "staleloc-tapes").iterdir()
    assert re.fullmatch(rf"builtin-{MUTANT}-seed0-tape\d+-stale-translation\.json", saved.name)
    summary = json.loads((tmp_path / "summary.json").read_text())
    jsonschema.validate(summary, summary_schema())
    (divergence,) = summary["divergences"]
    provenance = load(saved).provenance
    assert provenance is not None
    assert {name: provenance[name] for name in ("target", "mutant", "seed", "class", "check")} == {
        "target": "builtin",
        "mutant": MUTANT,
        "seed": 0,
        "class": divergence["class"],
        "check": divergence["check"],
    }
    assert (tmp_path / "repro.py").read_text().startswith("#!/usr/bin/env python3\n")
    again = run("replay", str(saved), "--times", "20")
    assert again.returncode == 1
    assert again.stdout.endswith("verdicts equal: 20 replays, 20 stale-translation\n")
    assert run("replay", str(saved), "--target", "builtin").returncode == 0


def test_the_same_bytes_on_any_number_of_workers(run: Run) -> None:
    words = ("fuzz", "--mutant", "free-repeats-page", "--tapes", "64", "--seed", "5", "--workers")
    assert without_times(run(*words, "1").stdout) == without_times(run(*words, "3").stdout)


def test_a_foreign_tape_is_fitted_and_says_so(run: Run, stale_tape: Path) -> None:
    tape = load(stale_tape)
    native = Config(**{**vars(tape.config), "policy": "native", "dtype": "float8_e4m3fn"})
    stale_tape.write_text(dumps(Tape(native, tape.events)))
    done = run("replay", stale_tape.name, "--target", "builtin:memo", "--mutant", MUTANT, "--json", "summary.json")
    assert done.returncode == 1
    assert done.stdout.splitlines()[:2] == [
        "stale.json on builtin:memo: policy native is played as memo",
        "stale.json on builtin:memo: dtype float8_e4m3fn is played as float32",
    ]
    summary = json.loads((stale_tape.parent / "summary.json").read_text())
    jsonschema.validate(summary, summary_schema())
    assert (summary["seed"], summary["tapes"], summary["events"]) == (None, 1, 5)


def test_a_tape_against_the_contract_is_one_line(run: Run, stale_tape: Path) -> None:
    tape = load(stale_tape)
    stale_tape.write_text(dumps(Tape(tape.config, (*tape.events, ev.WriteKv(7)))))
    done = run("replay", stale_tape.name)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"staleloc: event 6 \(write_kv\) cannot be played: [^\n]+\n", done.stderr)


def test_a_scenario_that_does_not_apply_is_one_line(run: Run, tmp_path: Path) -> None:
    """And no verdict: nothing of what it is about was run. A tape of somebody's own is not called a scenario."""
    why = "it is for SGLang's legacy tree SWARadixCache (policy swa-radix), which builtin does not have; play it on a "
    done = run("replay", "pr29352-recovery-under-lock", "--target", "builtin")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"staleloc: the scenario does not apply to builtin: {why}")
    (tmp_path / "copy.json").write_text(dumps(find_tape("pr29352-recovery-under-lock")))
    done = run("replay", "copy.json", "--target", "builtin")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"staleloc: {why}")


@pytest.mark.parametrize(
    ("events", "counts"),
    [
        ((Arrive(0, (1, 1)), Admit(0), Decode((0, 3), 1)), "3 events of tape.json on builtin (2 applied, 1 skipped)"),
        ((Decode((0,), 1), Admit(3)), "2 events of tape.json on builtin (none applied: nothing was played)"),
    ],
    ids=["some", "none"],
)
def test_a_replay_says_how_many_events_applied(
    run: Run, tmp_path: Path, events: tuple[ev.Event, ...], counts: str
) -> None:
    """Silence about events that were skipped means nothing."""
    config = Config(level="engine", policy="uncached", full_size=4, swa_size=4)
    (tmp_path / "tape.json").write_text(dumps(Tape(config, events)))
    done = run("replay", "tape.json", "--json", "summary.json")
    assert (done.returncode, done.stdout) == (0, f"no divergence: {counts}\n")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["applied"] + summary["skipped"] == summary["events"] == len(events)
    assert summary["applied"] == 2 * (len(events) - 2)


def test_a_mutant_is_looked_for_at_its_level(run: Run) -> None:
    """Without --level, and with the wrong one nothing is run."""
    done = run("fuzz", "--mutant", "backup-of-one-side", "--tapes", "8", "--first", "--workers", "1")
    assert done.returncode == 1
    assert "--level engine --mutant backup-of-one-side" in done.stdout
    for mutant, level, other in (("backup-of-one-side", "engine", "allocator"), (MUTANT, "allocator", "engine")):
        done = run("fuzz", "--mutant", mutant, "--level", other)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"staleloc: mutant {mutant} shows at the {level} level; leave out --level {other}\n"


def test_targets_and_mutants_are_listed(run: Run) -> None:
    assert "builtin:first_layer" in run("targets", "list").stdout
    assert "accepts a translation made in advance" in run("targets", "show", "builtin").stdout
    assert re.search(rf"^{MUTANT} +builtin +\w", run("mutants", "list").stdout, re.MULTILINE)


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    reader = subprocess.Popen(
        [*COMMAND, "mutants", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    )
    assert reader.stdout is not None
    assert reader.stderr is not None
    reader.stdout.close()
    assert reader.stderr.read() == b""
    reader.stderr.close()
    assert reader.wait(60) == 0


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_campaign_reports(way: signal.Signals, tmp_path: Path) -> None:
    process = campaign(tmp_path, "--mutant", "free-repeats-page", interval=0.2)
    assert process.stderr is not None
    divergent = 0
    while not divergent:
        line = re.fullmatch(r"staleloc: \d+ tapes, .+, (\d+) divergent tapes\n", process.stderr.readline().decode())
        assert line is not None
        divergent = int(line[1])
    process.send_signal(way)
    out, err = ended(process, 60)
    assert process.returncode == 1
    assert "double-free in builtin" in out
    assert re.search(r"^\d+ tapes, ", out, re.MULTILINE)
    assert err.splitlines()[-1] == "staleloc: interrupted; these are the results so far"


def test_ctrl_c_does_not_wait_for_a_target_that_hangs(tmp_path: Path, hostile: Spoil) -> None:
    """The results so far come at once, and no process stays behind."""
    here = hostile(
        """
        def stuck(self, config):
            BuiltinTarget.built = getattr(BuiltinTarget, "built", 0) + 1
            if BuiltinTarget.built == 20:
                (HERE / "pid").write_text(str(os.getpid()))
                time.sleep(600)
            build(self, config)
        BuiltinTarget.build = stuck
        """
    )
    process = campaign(tmp_path)
    while not (here / "pid").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = ended(process, 20)
    assert process.returncode == 2
    assert re.search(r"^19 tapes, ", out, re.MULTILINE)
    assert err.splitlines()[-1] == "staleloc: interrupted; these are the results so far"
    with pytest.raises(ProcessLookupError):
        os.kill(int((here / "pid").read_text(encoding="utf-8")), 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tapes", "9", "--seconds", "9"], "--tapes and --seconds exclude each other; give one"),
        (["--show"], "--show needs a file; give it with --json"),
        (["--targets", "0.5.12,builtin"], "'builtin' is not a release of SGLang; use for example 0.5.12"),
        (["--seeds", "4-x"], "'4-x' is not a list of seeds; use for example 0-4 or 0,3"),
        (["--seeds", "0,3-1"], "'0,3-1' is not a list of seeds; use for example 0-4 or 0,3"),
        (["--seeds", "0-1000"], "'0-1000' is not a list of seeds; use for example 0-4 or 0,3"),
        (["--targets", "0.5.1"], "sglang==0.5.1 is older than 0.5.11, the first release that can be driven"),
        (["--html", "no/such/folder/a.html"], "no/such/folder/a.html cannot be written"),
    ],
)
def test_a_matrix_that_can_not_be_made_is_refused(words: list[str], message: str, run: Run) -> None:
    done = run("matrix", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_that_is_no_matrix_is_refused(tmp_path: Path, run: Run) -> None:
    """However deep it is."""
    (tmp_path / "m.json").write_text("[" * 100_000)
    done = run("matrix", "--show", "--json", "m.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "staleloc: m.json is not a matrix; give another path\n"
