"""Run a report's script on a release that is not installed: ``python docs/reports/run.py 0.5.23 SCRIPT``.

A script needs SGLang and torch, nothing of ours. Here the release comes from its wheel as the harness imports it, with
stand-ins for GPU kernels and for what is around the KV cache.

Exit codes, the first two as the script itself has them: 0 the bug does not show, 1 it shows, 2 it cannot be told, and
one line says why: no such release, or one that the script does not fit.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.sglang.fetch import resolve
from staleloc.sim.targets.sglang.target import load


def run(version: str, script: str) -> str:
    """Run the script, which ends the process with its exit code if that is 0 or 1; otherwise, why it could not."""
    if not Path(script).is_file():
        return f"there is no file {script}"
    try:
        load(resolve(f"sglang=={version}"))
    except TargetError as error:
        return str(error)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        if ended.code in (0, 1):
            raise
        return f"{script} ended with {ended.code!r}, not with 0 or 1"
    except Exception as error:  # whatever it is that a release has in another way
        return f"{script} does not fit sglang {version}: {type(error).__name__}: {error}"
    return f"{script} did not say whether the bug shows"


if __name__ == "__main__":
    why = run(*sys.argv[1:]) if len(sys.argv) == 3 else "usage: python docs/reports/run.py VERSION SCRIPT"
    print(f"run.py: {why}", file=sys.stderr)
    raise SystemExit(2)
