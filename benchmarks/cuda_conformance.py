"""Are virtual graphs what real ones are? The same tapes on both, and what caching a translation saves on the card.

    python benchmarks/cuda_conformance.py --out results

Plays tapes with captured graphs on the builtin target, clean and with mutants, once on the CPU and once on a
CUDA card (`torch.cuda.CUDAGraph`, streams, pinned memory, copies that do not block), and compares verdicts,
every loc that a forward wrote, and what the pools hold at the end. Then it times translations. Writes
cuda.json and cuda.md into the folder. Exit code: 0 no difference, or no card; 1 a difference, or a part that
could not be run.

It needs torch 2.11 or newer and this checkout, nothing else, installed or not. ``--device cpu`` plays both
sides on the CPU, to try the script itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

# The package's folders are those of the checkout, as an editable install has them.
_package = types.ModuleType("staleloc")
_package.__path__ = [str(ROOT)]
sys.modules["staleloc"] = _package

TRIAL = 8
"""Tapes that are tried first: if all clean ones of them differ, it is the harness that fails."""

DEATHS = 20
"""Workers that may die before the rest is not played."""


def main() -> int:
    """Run what the command line asks for; the exit code."""
    options = _options()
    if options.worker is not None:
        from cuda_play import work

        deadline = time.monotonic() + options.seconds
        mine = (it for it in range(options.after + 1, options.tapes) if it // 2 % options.workers == options.worker)
        work(mine, options.seed, options.device, options.out, lambda: time.monotonic() > deadline)
        return 0
    if options.timing:
        from cuda_timing import timing

        options.out.write_text(json.dumps(timing(options.device)), encoding="utf-8")
        return 0
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: torch sees no CUDA card here (--device cpu tries the script itself)")
        return 0
    return _report(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("cuda-results"), help="folder for the results")
    parser.add_argument("--tapes", type=int, default=2400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300, help="how long tapes are played at most")
    parser.add_argument("--workers", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--after", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--timing", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _report(options: argparse.Namespace) -> int:
    """Play, time, and write both files."""
    from cuda_report import markdown, summary

    started = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        trial = _Crew(options, Path(folder) / "trial", tapes=TRIAL, workers=1, deaths=1)
        trial.play()
        clean = [result for result in trial.results if result["target"] == "clean"]
        failing = len(trial.results) < TRIAL or all(result["difference"] for result in clean)
        crew = trial
        if not failing:
            crew = _Crew(options, Path(folder) / "all", tapes=options.tapes, workers=options.workers, deaths=DEATHS)
            crew.play()
        timed = Path(folder) / "timing.json"
        done = subprocess.run(_command(options, "--timing", "--out", str(timed)), capture_output=True, text=True)
        timing = (
            json.loads(timed.read_text(encoding="utf-8")) if done.returncode == 0 else {"error": done.stderr[-3000:]}
        )
        found = summary(options, crew.results, crew.deaths, timing, time.monotonic() - started)
    (options.out / "cuda.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    text = markdown(found)
    (options.out / "cuda.md").write_text(text, encoding="utf-8")
    print(text)
    return 0 if found["conforms"] else 1


def _command(options: argparse.Namespace, *words: str) -> list[str]:
    same = ["--device", options.device, "--seed", str(options.seed), "--seconds", str(options.seconds)]
    return [sys.executable, str(Path(__file__).resolve()), *same, *words]


class _Crew:
    """Workers that play tapes, each in a process of its own: a fault on the device takes the process with it."""

    def __init__(self, options: argparse.Namespace, stem: Path, tapes: int, workers: int, deaths: int) -> None:
        self._options = options
        self._stem = stem
        self._tapes = tapes
        self._workers = workers
        self._most = deaths
        self.deaths: list[dict[str, Any]] = []

    @property
    def results(self) -> list[dict[str, Any]]:
        """What was compared, in the order of tapes."""
        lines = [line for number in range(self._workers) for line in self._lines(number)]
        return sorted((line for line in lines if "begin" not in line), key=lambda line: int(line["tape"]))

    def play(self) -> None:
        """Play all tapes, or as many as there is time for."""
        limit = time.monotonic() + self._options.seconds + 90
        running = {number: self._start(number, -1) for number in range(self._workers)}
        while running:
            time.sleep(0.2)
            for number, process in list(running.items()):
                if process.poll() is None and time.monotonic() > limit:
                    process.kill()
                    process.wait()
                if process.returncode is None:
                    continue
                del running[number]
                if process.returncode:
                    last = self._bury(number, process.returncode)
                    if len(self.deaths) < self._most and time.monotonic() < limit:
                        running[number] = self._start(number, last)

    def _start(self, number: int, after: int) -> subprocess.Popen[bytes]:
        words = ["--worker", str(number), "--workers", str(self._workers), "--tapes", str(self._tapes)]
        command = _command(self._options, *words, "--after", str(after), "--out", str(self._file(number)))
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        with self._file(number).with_suffix(".err").open("ab") as errors:
            return subprocess.Popen(command, stdout=errors, stderr=errors, env=environment)

    def _bury(self, number: int, code: int) -> int:
        """Note a death; the tape at which it came, or the last one there is if there was none."""
        begun = [line["begin"] for line in self._lines(number) if "begin" in line]
        tape = begun[-1] if begun else self._tapes
        errors = self._file(number).with_suffix(".err").read_text(encoding="utf-8", errors="replace")
        self.deaths.append({"tape": tape, "code": code, "errors": errors[-3000:]})
        return tape

    def _lines(self, number: int) -> list[dict[str, Any]]:
        file = self._file(number)
        if not file.exists():
            return []
        whole = [line for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
        return [json.loads(line) for line in whole]

    def _file(self, number: int) -> Path:
        return self._stem.with_name(f"{self._stem.name}-{number}.jsonl")


if __name__ == "__main__":
    sys.exit(main())
