"""The documents are true: their commands parse, their links and paths exist, and the README's numbers are measured."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from staleloc.sim.cli.main import cli
from staleloc.sim.parts.events_file import load

ROOT = Path(__file__).parents[2]

DOCUMENTS = sorted(
    [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
)

FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(text: str) -> Iterator[str]:
    """The `staleloc` command lines of a document's code blocks; a backslash at a line's end joins two."""
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", "").splitlines():
            found = re.search(r"(?:^|\bdo )staleloc (\S.*)", line)
            if found:
                yield found[1].partition("; do")[0].partition(" ||")[0]


def parse(line: str) -> None:
    """Raise ClickException unless each word of the command line is one that the command line knows."""
    words = shlex.split(line, comments=True)
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command = found
    command.make_context(command.name, words, parent=context)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_document_parse(document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No document shows a command or an option that does not exist. A file of events is loaded as it is parsed."""
    monkeypatch.chdir(ROOT / "examples" / "compact")
    for line in commands(document.read_text(encoding="utf-8")):
        parse(line)
    load(None)


def test_commands_are_found_and_a_wrong_one_is_seen() -> None:
    """In code blocks only, behind a loop too."""
    text = "staleloc no\n```\nstaleloc fuzz \\\n--first  # why\nfor a in b; do staleloc replay x || exit; done\n```\n"
    assert list(commands(text)) == ["fuzz --first  # why", "replay x"]
    for wrong in ("cd", "fuzz --quick", "targets throw"):
        with pytest.raises(click.ClickException):
            parse(wrong)


def dead_links(text: str, folder: Path) -> list[str]:
    """The relative links of a document that lead nowhere."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", text)
    return [link for link in links if not (folder / link).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_links_of_a_document_lead_somewhere(document: Path) -> None:
    """A moved file leaves none behind."""
    assert not dead_links(document.read_text(encoding="utf-8"), document.parent)


def dead_paths(text: str) -> list[str]:
    """The paths and module names in backticks that do not exist; a part in capitals stands for any name."""
    named = re.findall(r"`((?:sim|models|scenarios|tests|docs|benchmarks|examples)/[^`\s:]*)", text)
    modules = [f"sim/**/{name}" for name in re.findall(r"`(\w+\.py)`", text)]
    return [name for name in (*named, *modules) if not list(ROOT.glob(re.sub(r"\b[A-Z]{2,}\b", "*", name)))]


@pytest.mark.parametrize("name", ["docs/ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"])
def test_the_paths_of_a_guide_exist(name: str) -> None:
    """Whoever follows it comes to a file."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not dead_paths(text)


def test_a_dead_path_is_seen() -> None:
    """A placeholder stands for any name, a link to nothing is noticed."""
    text = "`sim/core/nothing.py` `sim/core/NAME.py` `sim/core/` `tape.py` `nothing.py`"
    assert dead_paths(text) == ["sim/core/nothing.py", "sim/**/nothing.py"]
    assert dead_links("[a](README.md#x) [b](gone.md) [c](https://a.b/c.md)", ROOT) == ["gone.md"]


def test_the_numbers_of_the_readme_are_measured() -> None:
    """Each number in its prose is one that a command prints, a version, or an exit code or slot with a meaning."""
    releases, *shown = printed("matrix", "--show", "--json", str(ROOT / "docs" / "matrix.json"))
    versions, tapes = releases.split(), shown.index("")
    (quiet,) = [line for line in shown if line.startswith("Fuzzed blind")]
    python = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    (seconds,) = re.findall(r"Stop after this time\.\s+\[default: (\d+)\]", "\n".join(printed("fuzz", "--help")))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for claim in (
        f"Each of {tapes} tapes was replayed on {len(versions)} releases, {versions[0]} to {versions[-1]}",
        quiet,
        f"Python {python.removeprefix('>=')} or newer",
        f"for {seconds} s",
    ):
        assert claim in text
    said = {quiet, f"{tapes} tapes", f"{len(versions)} releases", python, *versions, "Apache-2.0", "0 1 2 -1"}
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))
    assert set(numbers(prose)) <= {number for part in said for number in numbers(part)}


def printed(*arguments: str) -> list[str]:
    """The lines that a command prints."""
    return CliRunner().invoke(cli, arguments, catch_exceptions=False).output.splitlines()


def numbers(text: str) -> list[str]:
    """The numbers of a text; a version is one."""
    return re.findall(r"(?<!\w)-?\d[\d.,]*(?:\.post\d+)?(?<![.,])", text)
