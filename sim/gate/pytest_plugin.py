"""A pytest plugin: ``pytest --staleloc TARGET`` adds an item for each scenario, level and tape file.

It is loaded by pytest only, through an entry point of the group ``pytest11``. Without the option it does nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..targets.base import Scope
    from .outcome import Case
    from .play import Gate

__all__ = ["ScopeItem", "TapeItem", "TargetCollector"]

DEFAULT_TAPES = 32

_KEY = pytest.StashKey["_Plugin"]()

_TAPE_BEGINS = b'"staleloc-tape"'


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("staleloc", "KV-cache locations")
    group.addoption("--staleloc", metavar="TARGET", help="Play scenarios and tapes on a target or a checkout's folder.")
    group.addoption(
        "--staleloc-base",
        action="append",
        default=[],
        metavar="REF|TARGET|FILE",
        help="What is known, as for: staleloc ci --base.",
    )
    group.addoption(
        "--staleloc-tapes",
        type=int,
        default=DEFAULT_TAPES,
        metavar="N",
        help=f"Random tapes of each level; 0 for none.  [default: {DEFAULT_TAPES}]",
    )
    group.addoption("--staleloc-seed", type=int, default=0, metavar="N", help="Seed of the tapes.  [default: 0]")


def pytest_configure(config: pytest.Config) -> None:
    """Load the target if it was asked for; an error ends the run with one line."""
    if config.getoption("--staleloc") is None or config.getoption("--help"):
        return
    from ..findings.files import KeepError
    from ..targets.base import TargetError

    try:
        config.stash[_KEY] = _Plugin(config)
    except (TargetError, KeepError) as error:
        raise pytest.UsageError(f"--staleloc: {error}") from None


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the workers."""
    plugin = config.stash.get(_KEY, None)
    if plugin is not None:
        plugin.close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is tested, and compared with what."""
    plugin = config.stash.get(_KEY, None)
    return [] if plugin is None else [f"staleloc: {plugin.gate.plan.target}, compared with {plugin.compared}"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add scenarios and levels. This comes before -k and -m select among all items."""
    plugin = config.stash.get(_KEY, None)
    if plugin is not None:
        collector = TargetCollector.from_parent(session, name="staleloc", nodeid="staleloc")
        items += session.genitems(collector)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect tape files among the arguments and in the folders that pytest searches."""
    if parent.config.stash.get(_KEY, None) is None or file_path.suffix != ".json":
        return None
    with file_path.open("rb") as file:
        begins = file.read(200)
    return TapeFile.from_parent(parent, path=file_path) if _TAPE_BEGINS in begins else None


class _Plugin:
    """The target, its workers, and what is known of it."""

    def __init__(self, config: pytest.Config) -> None:
        from ..findings.saves import Saves
        from ..run.pool import WorkerPool
        from ..run.progress import Progress
        from ..targets.registry import release_of
        from .bases import Bases
        from .checkout import locate
        from .clock import Clock
        from .outcome import GateResult
        from .play import Gate, GatePlan

        self._stack = ExitStack()
        self.tapes: int = config.getoption("--staleloc-tapes")
        seed: int = config.getoption("--staleloc-seed")
        subject = locate(config.getoption("--staleloc"))
        release = release_of(subject.target)
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="staleloc-base-")))
        pool = self._stack.enter_context(WorkerPool())
        plan = GatePlan(subject.target, release, seed, max(self.tapes, 1), 1)
        result = GateResult(subject, release, seed)
        self.gate: Gate = Gate(plan, Clock(None), pool, Progress(), result, Saves())
        self.bases = self._stack.enter_context(Bases(subject, folder, self.gate.player))
        self.gate.known = [self.bases.of(text) for text in config.getoption("--staleloc-base")]
        self.compared = ", ".join(it.name for it in self.gate.known) or "the release that it is judged as"

    @cached_property
    def scenarios(self) -> dict[str, Case]:
        """Every scenario's verdict by name; played when the first one is asked for."""
        self.gate.play_scenarios(self.bases)
        return {case.name: case for case in self.gate.result.cases}

    def close(self) -> None:
        """End the workers."""
        self._stack.close()


class _Diverges(Exception):
    """The tape of an item diverges, and nothing known does so."""


class _Item(pytest.Item):
    """An item that plays something."""

    @property
    def plugin(self) -> _Plugin:
        """The plugin's state."""
        return self.config.stash[_KEY]

    def judge(self, case: Case) -> None:
        """Fail, skip or mark the item as the case says."""
        from ..findings.text import render

        if case.fails and case.finding is not None:
            raise _Diverges(render(case.finding))
        if case.verdict == "known":
            pytest.xfail(f"{case.title}; {case.why}")
        if case.verdict == "unplayable":
            pytest.skip(case.why)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the report of a divergence and no traceback."""
        return str(excinfo.value) if isinstance(excinfo.value, _Diverges) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return where the item comes from, for people."""
        return self.path, None, self.name


class ScenarioItem(_Item):
    """The tape of an incident."""

    def runtest(self) -> None:
        """Judge the scenario."""
        self.judge(self.plugin.scenarios[self.name])


class ScopeItem(_Item):
    """Random tapes of one level and combination of features."""

    scope: Scope

    def runtest(self) -> None:
        """Play the tapes; fail with the first new finding."""
        gate = self.plugin.gate
        _ = self.plugin.scenarios  # what is known may depend on them
        before = len(gate.result.cases)
        gate.fuzz([self.scope])
        for case in gate.result.cases[before:]:
            if case.fails:
                self.judge(case)


class TapeItem(_Item):
    """A tape file."""

    def runtest(self) -> None:
        """Play the tape; one that cannot be read is an error."""
        from ..tapes.codec import load

        load(self.path)
        gate = self.plugin.gate
        _ = self.plugin.scenarios
        before = len(gate.result.cases)
        with gate.player(gate.plan.target) as player:
            gate.play_tape(player, self.path)
        for case in gate.result.cases[before:]:
            self.judge(case)


class TapeFile(pytest.File):
    """A file with a tape."""

    def collect(self) -> Iterable[pytest.Item]:
        """Yield its one item."""
        yield TapeItem.from_parent(self, name="tape")


class TargetCollector(pytest.Collector):
    """The scenarios and levels of the target."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each."""
        from ..parts.generate import scopes_of
        from ..tapes.scenarios import scenarios

        plugin = self.config.stash[_KEY]
        for scenario in scenarios():
            yield ScenarioItem.from_parent(self, name=scenario.name)
        if plugin.tapes:
            with plugin.gate.player(plugin.gate.plan.target) as player:
                scopes = scopes_of(player.profiles)
            for scope in scopes:
                item = ScopeItem.from_parent(self, name=str(scope).removeprefix("the ").replace(" ", "-"))
                item.scope = scope
                yield item
