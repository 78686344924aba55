"""The command line of code memory: ``pam-retriever git``, and ``recall`` on its index."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pam_retriever.apps import terminal
from pam_retriever.apps.code.learning import MOST_FILES, learn, state_of
from pam_retriever.apps.code.memory import CodeMemory, FileHit
from pam_retriever.apps.code.repository import Repository
from pam_retriever.embedding import Embedder
from pam_retriever.errors import InvalidInput
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.store.folder.manifest import has_manifest

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

INDEX = "pam-retriever"  # name of the index folder inside the .git folder
ModelOf = Callable[[argparse.Namespace, "str | None"], str]
PLAIN = {
    "mode": None,
    "hops": 1,
    "cue_where": None,
    "feedback_where": None,
    "when": None,
    "faithful": False,
    "direction": None,
}


def add_git(commands: Commands, add_model: Callable[[argparse.ArgumentParser], None], model: ModelOf) -> None:
    """Adds the command ``git``."""
    command = commands.add_parser("git", help="learn which files change together, and why, from a git repository")
    command.add_argument("repository", type=terminal.path, help="folder of the repository")
    command.add_argument(
        "index",
        type=terminal.path,
        nargs="?",
        help=f"folder of the index (default: {INDEX} in the .git of the repository)",
    )
    add_model(command)
    command.add_argument("--revision", default="HEAD", help="branch, tag or hash up to which to read (default: HEAD)")
    command.add_argument(
        "--most-files",
        type=int,
        default=MOST_FILES,
        help=f"ignore commits that change more files than this (default: {MOST_FILES})",
    )
    command.set_defaults(run=lambda parsed: _git(parsed, model))


def add_changed(command: argparse.ArgumentParser) -> None:
    """Adds the options of ``recall`` for a code memory."""
    command.add_argument(
        "--changed",
        nargs="+",
        metavar="PATH",
        help="in a code memory: find the files that usually change together with these",
    )


def is_asked(index: PredictiveAssociativeIndex, parsed: argparse.Namespace) -> bool:
    """Returns whether a call of ``recall`` is a question to a code memory.

    Raises:
        InvalidInput: ``--changed`` with another kind of index, or with options that would be ignored.
    """
    if parsed.changed is None:
        plain = all(getattr(parsed, name) == value for name, value in PLAIN.items())
        return plain and parsed.query is not None and parsed.id is None and state_of(index) is not None
    given = [name for name, value in PLAIN.items() if getattr(parsed, name) != value]
    given += [name for name in ("query", "id", "where") if getattr(parsed, name) is not None]
    if given:
        raise InvalidInput(f"Got --changed with {', '.join(given)}.", "--changed alone", "Ask twice.")
    terminal.refuse_model(parsed, "--changed")
    return True


def answer(index: PredictiveAssociativeIndex, parsed: argparse.Namespace, model: ModelOf) -> None:
    """Prints the files for a question, or for changed files."""
    embedder = Embedder(model(parsed, index.embedder_name), parsed.same_embedder)
    embedder.check(index.embedder_name)
    memory = CodeMemory(index, embedder)
    found = (
        memory.changed_with(parsed.changed, parsed.k)
        if parsed.changed
        else memory.recall(parsed.query, parsed.k, parsed.where)
    )
    _print(found, parsed.json)


def _git(parsed: argparse.Namespace, model: ModelOf) -> None:
    from tqdm.auto import tqdm

    repository = Repository(parsed.repository)
    folder = parsed.index or repository.git_folder / INDEX
    repository.commit(parsed.revision)  # fails before a folder is created
    used = None
    if has_manifest(folder):
        with PredictiveAssociativeIndex.open(folder, read_only=True) as index:
            used = index.embedder_name
    embedder = model(parsed, used)
    with PredictiveAssociativeIndex.open(folder, embedder=embedder, same_embedder=parsed.same_embedder) as index:
        report = learn(
            index,
            repository,
            parsed.revision,
            parsed.most_files,
            lambda batches: tqdm(batches, desc="commits", unit="batch", disable=None),
        )
        print(f"{report}\n{index}")
    print(f'Ask: pam-retriever recall {shlex.quote(str(folder))} "your change in words"')


def _print(found: Sequence[FileHit], as_json: bool) -> None:
    for hit in found:
        if as_json:
            print(terminal.json_line(hit.to_dict()))
            continue
        print(f"{hit.score:7.3f}  {terminal.safe(hit.path)}")
        for reason in hit.reasons:
            print(f"         {(reason.date or '')[:10]:10}  {reason.commit[:10]}  {terminal.safe(reason.subject)}")
