"""The frame of a process that does one job: it comes in on standard input, and the account goes out at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from ...parts.events_file import read
from ...parts.hooks import DeclaredError
from ...run.parent import end_with_parent
from ...run.streams import own_output

__all__ = ["do_job"]


def do_job(work: Callable[[dict[str, Any]], Any]) -> None:
    """Do the job, with the events that are declared for it. The engine's own output goes to standard error."""
    job = json.load(sys.stdin)
    end_with_parent(job["parent"])
    import torch

    torch.set_num_threads(1)
    answer = own_output()
    try:
        read(job["events"])
        account = work(job)
    except DeclaredError as error:
        account = {"error": str(error)}
    except SyntaxError as error:
        account = {"error": f"{error.filename}, line {error.lineno or 1}: {error.msg}; the target cannot be loaded"}
    answer.write(json.dumps(account))
    answer.close()
