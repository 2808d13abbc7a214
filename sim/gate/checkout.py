"""A user's sources: the target that they are, their place in a repository, and how they were at another commit."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from ..targets.base import TargetError
from ..targets.family import TargetSpec
from ..targets.registry import families, family_of, parse

__all__ = ["Subject", "archived", "commit_of", "locate"]

_GIT_SECONDS = 120


@dataclass(frozen=True)
class Subject:
    """What is tested.

    Attributes:
        target: its name.
        root: the folder of its package.
        prefix: path from the repository's root to that folder, with a slash at its end; empty where there is none.
        git: whether the folder lies in a git work tree.
    """

    target: str
    root: Path
    prefix: str
    git: bool


def locate(text: str) -> Subject:
    """Return the subject that a target's name or a folder stands for.

    Raises:
        TargetError: there is none; the message says what is missing.
    """
    spec = parse(_name(text))
    root = spec.family.sources(spec).root
    top = _top(root) if _is_checkout(spec) else None
    if top is None:
        return Subject(spec.text, root, "", False)
    inside = root.resolve().relative_to(top).as_posix()
    return Subject(spec.text, root, "" if inside == "." else f"{inside}/", True)


def _name(text: str) -> str:
    family = family_of(text)
    if family is not None and family.parse(text) is not None:
        return text
    folder = Path(text).expanduser()
    if not folder.is_dir():
        return text  # `parse` says what a target's name is
    for it in families():
        name = it.checkout(folder)
        if name is not None:
            return name
    titles = " or ".join(it.title for it in families())
    raise TargetError(f"{text} is no checkout of {titles}; give one, or a target's name (see: staleloc targets list)")


def _is_checkout(spec: TargetSpec) -> bool:
    return spec.text.startswith(f"{spec.family.name}@") and not spec.text.endswith(".whl")


def _top(root: Path) -> Path | None:
    """Return the root of the work tree that a folder lies in, or None."""
    try:
        return Path(_git(root, "rev-parse", "--show-toplevel").decode().strip()).resolve()
    except TargetError:
        return None


def commit_of(subject: Subject, ref: str) -> str:
    """Return the commit that a ref of the subject's repository stands for.

    Raises:
        TargetError: there is no such commit here.
    """
    if not subject.git:
        raise TargetError(
            f"--base {ref}: no target, no file, and {subject.target} lies in no git repository; "
            "give a target such as builtin, a file of accepted findings, or test a checkout"
        )
    try:
        return _git(subject.root, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").decode().strip()
    except TargetError:
        raise TargetError(
            f"--base {ref}: no target, no file and no commit of this repository; fetch it first "
            "(actions/checkout: fetch-depth: 0)"
        ) from None


def archived(subject: Subject, commit: str, folder: Path) -> str:
    """Write the subject's sources as they were at a commit below `folder`, and return the name of that target.

    Neither the work tree nor the index is touched. Extension modules are no sources: those that were built in the work
    tree are taken along, so that both sides run the same ones.

    Raises:
        TargetError: the commit has no such sources.
    """
    into = folder / subject.root.name
    into.mkdir(parents=True)
    try:
        data = _git(subject.root, "archive", "--format=zip", commit)
    except TargetError as error:
        raise TargetError(f"commit {commit[:12]} has no {subject.prefix or subject.root}: {error}") from None
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(into)
    for module in subject.root.rglob("*.so"):
        copy = into / module.relative_to(subject.root)
        if not copy.exists() and copy.parent.is_dir():
            shutil.copyfile(module, copy)
    family = parse(subject.target).family
    return f"{family.name}@{into}"


def _git(folder: Path, *words: str) -> bytes:
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(f"git cannot be run ({error})") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").split("\n")[0]
        raise TargetError(f"git {words[0]} failed: {said}")
    return done.stdout
