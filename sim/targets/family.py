"""Families of targets. A family is the only place that knows an engine by its name."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from packaging.version import InvalidVersion, Version

from ...models.config import Config
from .base import Target, TargetError
from .mutants.transform import Mutant, Transform

__all__ = [
    "USER_FOLDER", "USER_HOME",
    "Family", "Rewrite", "ScriptTarget", "ServerShape", "SourceTree", "TargetSpec", "user_path",
]  # fmt: skip

USER_FOLDER, USER_HOME = "STALELOC_FOLDER", "STALELOC_HOME"
"""Variables of a worker, which has another folder and another home than the command: those of the command."""

Rewrite = Callable[[str, str], str]
"""``(module, source) -> source``: changes a target's sources as they are loaded."""


def user_path(text: str) -> Path:
    """The path that a user has given, made absolute, in a worker too.

    Raises:
        TargetError: it begins with ``~`` and the name of nobody.
    """
    home = os.environ.get(USER_HOME)
    first, _, rest = text.partition("/")
    try:
        path = Path(home, rest) if home and first == "~" else Path(text).expanduser()
    except RuntimeError:
        raise TargetError(f"{text}: there is no home folder of {first}; give another path") from None
    return Path(os.environ.get(USER_FOLDER) or os.getcwd(), path)


@dataclass(frozen=True)
class TargetSpec:
    """A target by name.

    Attributes:
        text: the name as the user gave it.
        family: the family that it belongs to.
        policy: the one policy asked for, or None for all.
        root: folder of a changed copy of the embedded target's sources, or None for its own.
    """

    text: str
    family: Family
    policy: str | None = None
    root: Path | None = None


@dataclass(frozen=True)
class SourceTree:
    """A target's sources, for the audit.

    Attributes:
        root: the folder of its package.
        package: the package's dotted name, as it stands before the names of modules.
        release: its release, or None if it has none.
    """

    root: Path
    package: str
    release: str | None


@dataclass(frozen=True)
class ScriptTarget:
    """A target in a stand-alone script, where our modules come along in a package ``embedded``.

    Attributes:
        made_for: what the script was made for.
        run: how it is run.
        roots: modules of ours that it imports.
        imports: lines of its ``main`` that import what `make` needs.
        make: an expression that makes the target.
        ours: sources of ours that are the target itself, with the defect, by module; more than come along.
        theirs: sources of the engine that have the defect, by module; None where none could.
    """

    made_for: str
    run: str
    roots: tuple[str, ...]
    imports: tuple[str, ...]
    make: str
    ours: Mapping[str, str] = field(default_factory=dict)
    theirs: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ServerShape:
    """What a server's flags say of the tapes that are like its traffic.

    Attributes:
        features: values of ``--features``; those that were asked for beside the flags are among them.
        pins: fields of the config, as `Pins` has them.
        scaled: what was made smaller, one phrase each.
        ignored: flags that change nothing, each with the reason.
    """

    features: tuple[str, ...]
    pins: Mapping[str, Any]
    scaled: tuple[str, ...]
    ignored: tuple[tuple[str, str], ...]


class Family(ABC):
    """A family of targets: how they are named, fetched, loaded and read.

    The module that defines a family loads neither torch nor the engine: processes that never play a tape import it.

    Attributes:
        name: the first word of its targets' names. ``NAME==VERSION`` is a release, ``NAME@PATH`` lies in a folder.
        title: the engine's proper name.
        forms: how its targets are named, for messages.
        mapping: the attribute that holds the translation table, for the audit.
        audited: targets whose guards were gone through by reading, oldest first. The family's own name covers all of
            its targets.
        covered: the source that line coverage counts: patterns for ``path`` or ``path:function``.
        loads_late: targets load some of their modules while tapes are played.
        releases: names of the known releases that can be driven, oldest first.
        plumbing: patterns for ``FILE FUNCTION`` of code that carries out what others ask for, such as allocators: if a
            slot is freed wrongly, the caller is to blame.
        pulls: address of a pull request, without its number.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    forms: ClassVar[tuple[str, ...]]
    mapping: ClassVar[str] = "full_to_swa_index_mapping"
    audited: ClassVar[tuple[str, ...]] = ()
    covered: ClassVar[tuple[str, ...]] = ("*",)
    loads_late: ClassVar[bool] = False
    releases: ClassVar[tuple[str, ...]] = ()
    plumbing: ClassVar[tuple[str, ...]] = ()
    pulls: ClassVar[str] = ""

    @property
    def begins(self) -> str:
        """A regular expression: how names of its targets begin."""
        return f"{self.name}(==|@)" if self.releases else self.name

    @abstractmethod
    def parse(self, text: str) -> TargetSpec | None:
        """The target that a name stands for; None if it is not named like one of the family.

        Raises:
            TargetError: it is named like one, and there is no such target.
        """

    @abstractmethod
    def rows(self, policies: Callable[[str], Sequence[str]]) -> list[tuple[str, str]]:
        """Targets at hand and ways to name others, each with a few words.

        Args:
            policies: the policies of a target, which is loaded for that.
        """

    @abstractmethod
    def load(self, spec: TargetSpec, rewrite: Rewrite | None = None) -> Target:
        """Load a target into this process, its sources rewritten.

        Raises:
            TargetError: it cannot be loaded. What `rewrite` raises comes out as it is.
        """

    @abstractmethod
    def sources(self, spec: TargetSpec) -> SourceTree:
        """A target's sources.

        Raises:
            TargetError: they cannot be had.
        """

    def code_file(self, spec: TargetSpec, tree: SourceTree, path: str) -> str:
        """The file name that the running code of a source file has; `path` is inside the target's tree."""
        return str(tree.root / path)

    @abstractmethod
    def script(self, spec: TargetSpec, mutant: Mutant | None, config: Config, version: str) -> ScriptTarget:
        """How a stand-alone script comes by a target.

        Args:
            mutant: the defect that it has, or None.
            config: what is built in the script.
            version: of the program that writes the script.

        Raises:
            TargetError: the target's sources cannot be had.
            MutantError: an edit does not fit them.
        """

    def release(self, text: str) -> str | None:
        """The release that a target's name stands for, fetched if need be; None if it has none.

        Raises:
            TargetError: it cannot be had.
        """
        return None

    def checkout(self, folder: Path) -> str | None:
        """The name of the target whose sources lie in a folder, or in the usual place below it; None if none do."""
        return None

    def counterpart(self, text: str, version: str | None) -> str:
        """The target whose public record holds for a target too: of a checkout or a wheel the newest known release that
        is not newer. The target itself if there is none.

        Args:
            version: the version of the target's sources, or None.
        """
        if text in self.releases or version is None:
            return text
        try:
            wanted = Version(version)
        except InvalidVersion:
            return text
        older = [it for it in self.releases if Version(it.removeprefix(f"{self.name}==")) <= wanted]
        return older[-1] if older else text

    def read_server(self, text: str, features: tuple[str, ...]) -> ServerShape:
        """What the flags of one of its servers say about tapes.

        Args:
            text: the flags, as on a command line.
            features: what is asked for beside them.

        Raises:
            TargetError: they cannot be read, or there is no table of its flags.
        """
        raise TargetError(f"the flags of a server of {self.name} are not known here; give --features and --config")

    def files(self, text: str) -> list[Path]:
        """The files, and folders of sources, that are read for a target by its name. Nothing is fetched.

        Raises:
            TargetError: it names a folder that cannot be found.
        """
        return []

    def add(self, text: str) -> str:
        """Fetch a target now, so that later runs need no network; what to tell of it.

        Raises:
            TargetError: it cannot be had, or need not be fetched.
        """
        raise TargetError(f"{text} comes with the program; there is nothing to add")

    def load_mutant(self, spec: TargetSpec, mutant: Mutant) -> Target:
        """Load a target with a defect.

        Raises:
            TargetError: it cannot be loaded.
            MutantError: an edit does not fit its sources.
        """
        transform = Transform(mutant)
        target = self.load(spec, transform)
        transform.finish()
        return target

    def load_audited(self, spec: TargetSpec, rewrite: Rewrite | None) -> Target:
        """Load a target for an audit, whose functions are found by `module` then."""
        return self.load(spec, rewrite)

    def module(self, name: str) -> str:
        """The name under which `load_audited` loads a module of `sources`."""
        return name
