"""The matrix as text: for a terminal, and as Markdown for the documentation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from staleloc.sim.keep import KeepError, write
from staleloc.sim.matrix.cells import LEGEND, cell_of, footnotes, short
from staleloc.sim.matrix.facts import Matrix
from staleloc.sim.matrix.quiet import hunted, news, places, scopes, seen_there
from staleloc.sim.matrix.record import alarms
from staleloc.sim.report import columns
from staleloc.sim.scenarios import Said, Scenario

__all__ = [
    "MARKS",
    "compact", "heading", "label", "measured", "page", "quiet_rows", "quiet_total", "readme", "said_words", "terminal",
    "write_markdown",
]  # fmt: skip

TITLE = "# The release matrix"
"""First line of the page."""

MARKS = ("<!-- matrix: staleloc matrix writes what stands here -->", "<!-- end of matrix -->")
"""Lines of a Markdown file between which the table stands, if it has more than the table."""

_PULL = "https://github.com/sgl-project/sglang/pull/"

_NAME = re.compile(r"pr(\d+)-(.*)")


def heading(target: str) -> str:
    """A target at the head of a column."""
    return target.removeprefix("sglang==")


def label(scenario: Scenario) -> str:
    """A scenario at the head of a row: the public number, and what it is about."""
    found = _NAME.fullmatch(scenario.name)
    name = found[2] if found else scenario.name
    return f"{found[1] if found else 'none known'}: {name.replace('-', ' ')}"


def measured(matrix: Matrix) -> str:
    """How the matrix was measured, in a sentence."""
    seeds = ", ".join(map(str, matrix.seeds))
    return (
        f"Measured with staleloc {matrix.version}: hunts of {matrix.budget} each, seeds {seeds}, one process a hunt, "
        f"on a machine with {matrix.cores} CPU cores."
    )


def said_words(said: Said | None) -> str:
    """What the public record says of releases."""
    if said is None:
        return "no public record"
    since = f"since {said.since}" if said.since is not None else "not said since when"
    return f"{since}, {f'fixed in {said.fixed}' if said.fixed is not None else 'no fix known'}"


def terminal(matrix: Matrix, known: Sequence[Scenario]) -> str:
    """The table, its legend and its footnotes."""
    rows = [("", *map(heading, matrix.releases))]
    rows += [(label(it), *(short(cell_of(matrix, it, target)) for target in matrix.releases)) for it in known]
    lines = columns(rows, indent="")
    used = {cell for row in rows[1:] for cell in row[1:]}
    legend = [(text or "(none)", says) for text, says in LEGEND.items() if _occurs(text, used)]
    lines += ["", *columns(legend, indent=""), "", *footnotes(matrix, known), *quiet_total(matrix, known)]
    lines += [*(f"NEW: {line}" for line in alarms(matrix, known)), measured(matrix)]
    return "\n".join(lines) + "\n"


def _occurs(text: str, cells: set[str]) -> bool:
    """Whether a text of the legend is in the table."""
    if text == "*":
        return any(cell.endswith("*") for cell in cells)
    plain = {cell.removesuffix("*") for cell in cells}
    return text in plain or (text == "3 s" and any(cell.endswith(" s") for cell in plain))


def compact(matrix: Matrix, known: Sequence[Scenario], tapes: bool = False) -> str:
    """The table in Markdown, one row an incident."""
    rows = [["SGLang PR, incident", *map(heading, matrix.releases)]]
    for scenario in known:
        cells = [short(cell_of(matrix, scenario, target), tapes).replace("*", "\\*") for target in matrix.releases]
        rows.append([_linked(scenario), *cells])
    return "\n".join(_table(rows))


def quiet_rows(matrix: Matrix, known: Sequence[Scenario]) -> list[tuple[str, ...]]:
    """A table of the places where no tape diverges, its head first; empty if there is none."""
    quiet = places(matrix, known)
    drawn = scopes(known)
    head = ("release", *(str(scope).removeprefix("the ") for scope in drawn))
    rows = []
    for target in dict.fromkeys(target for target, _ in quiet):
        cells = (seen_there(matrix, target, scope) if (target, scope) in quiet else "" for scope in drawn)
        rows.append((heading(target), *cells))
    return [head, *rows] if rows else []


def quiet_total(matrix: Matrix, known: Sequence[Scenario]) -> list[str]:
    """One line: how much was played where no tape diverges, and whether there was something; none if nothing was."""
    hunts = [(target, hunt) for target, scope in places(matrix, known) if (hunt := hunted(matrix, target, scope))]
    if not hunts:
        return []
    new = sum(len(news(matrix, target, hunt)) for target, hunt in hunts)
    silent = not any(hunt.found or hunt.others for _, hunt in hunts)
    came = "silent" if silent else f"{new or 'nothing'} new"
    tapes = sum(hunt.tapes for _, hunt in hunts)
    return [f"Fuzzed blind where no tape diverges ({len(hunts)} hunts): {tapes:,} tapes, {came}."]


def readme(matrix: Matrix, known: Sequence[Scenario]) -> str:
    """What stands between the marks of another page."""
    total = "".join(f"\n{line}\n" for line in quiet_total(matrix, known))
    return compact(matrix, known) + total


def _linked(scenario: Scenario) -> str:
    found = _NAME.fullmatch(scenario.name)
    text = label(scenario)
    return text.replace(found[1], f"[{found[1]}]({_PULL}{found[1]})", 1) if found else text


def page(matrix: Matrix, known: Sequence[Scenario]) -> str:
    """All of it as a Markdown page."""
    legend = [f"- {f'`{text}`' if text else 'nothing'}: {says}" for text, says in LEGEND.items()]
    lines = [
        TITLE,
        "",
        "Which SGLang release shows which bug: by its tape, and by fuzzing that knows of no incident. A row",
        "without a number is of a bug that fuzzing found and nobody reported; see [FINDINGS.md](FINDINGS.md).",
        "Written by `staleloc matrix`; `docs/matrix.json` has what was measured. Seconds are of processor time, as on",
        "one idle core, playing; loading and shrinking come on top. Tapes are the same on every machine.",
        "",
        measured(matrix),
        "",
        compact(matrix, known),
        *legend,
        "",
        "## In tapes",
        "",
        "The same, with the number of the first tape that shows the bug (median of the seeds) in place of seconds.",
        "",
        compact(matrix, known, tapes=True),
        "## Blind, where nothing is known",
        "",
        "Releases and levels at which no tape diverges, fuzzed with the first seed to the end of the budget. A find is",
        "new, unless it looks like a tape that diverges on this release at another level. An empty cell: a tape",
        "diverges there (see above), or the release has nothing of the kind; `?`: not fuzzed yet.",
        "",
        *_table(quiet_rows(matrix, known)),
        "## Not what the record says",
        "",
        *_listed(footnotes(matrix, known)),
        "",
        "## New",
        "",
        "Divergences where no tape diverges, or where the bug is said to be fixed and no finding says otherwise.",
        "",
        *_listed(alarms(matrix, known)),
        "",
        "## Incidents",
        "",
        *_incidents(known),
        "## Not told apart",
        "",
        "What hunts found on releases that have a bug of the same level, and what looks like none by class and words",
        "or shape: other faces of these bugs, or others. [FINDINGS.md](FINDINGS.md#other-faces) says of some which.",
        "",
        *_listed(_others(matrix)),
    ]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table and an empty line; nothing if it has no rows."""
    if not rows:
        return ["Nothing.", ""]
    return [_row(rows[0]), _row(["---"] * len(rows[0])), *map(_row, rows[1:]), ""]


def _listed(lines: Sequence[str]) -> list[str]:
    return [f"- {line}" for line in lines] or ["Nothing."]


def _incidents(known: Sequence[Scenario]) -> list[str]:
    rows = [["tape", "incident", "family", "the record says", "mechanism"]]
    rows += [[f"`{it.name}`", it.incident, it.family, said_words(it.said), it.mechanism] for it in known]
    return _table(rows)


def _others(matrix: Matrix) -> list[str]:
    """Releases, level -> kinds that look like no scenario, and scenarios whose tapes do not diverge there."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for key, hunt in matrix.hunts.items():
        for _, what in news(matrix, key.target, hunt) if hunt.wanted else []:
            targets = kinds.setdefault((str(key.scope), what), [])
            if heading(key.target) not in targets:
                targets.append(heading(key.target))
    ordered = sorted((scope, what, sorted(targets)) for (scope, what), targets in kinds.items())
    return [f"{scope}, {', '.join(targets)}: {what}" for scope, what, targets in ordered]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def check_markdown(path: Path) -> None:
    """Raise KeepError unless `write_markdown` can put the table there without taking anything away."""
    text = _read(path)
    if MARKS[0] in text and MARKS[1] not in text.partition(MARKS[0])[2]:
        raise KeepError(f"{path} has the line {MARKS[0]!r} and not {MARKS[1]!r}")
    if text.strip() and MARKS[0] not in text and not text.startswith(TITLE):
        raise KeepError(
            f"{path} is somebody's: it is no page of the matrix, and has no line {MARKS[0]!r} for the table"
        )


def write_markdown(path: Path, matrix: Matrix, known: Sequence[Scenario]) -> None:
    """Write the page, or, into a file that has `MARKS`, the table between them.

    Raises:
        KeepError: the file cannot be read or written, or is somebody's.
    """
    check_markdown(path)
    first, last = MARKS
    before, found, rest = _read(path).partition(first)
    after = rest.partition(last)[2]
    write(path, f"{before}{first}\n{readme(matrix, known)}{last}{after}" if found else page(matrix, known))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, ValueError) as error:
        raise KeepError(f"{path} cannot be read ({error})") from None
