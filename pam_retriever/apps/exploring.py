"""``pam-retriever explore FOLDER``: the page that shows what an index has learnt."""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from urllib.parse import quote

from pam_retriever.apps import terminal
from pam_retriever.apps.tenant import add_tenant, within
from pam_retriever.embedding.text_models import (
    DEFAULT,
    DEFAULT_MODEL,
    TextModel,
    is_local,
    model_of_index,
)
from pam_retriever.errors import IndexLocked, InvalidInput
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.store.folder import repair
from pam_retriever.store.folder.files import replacing

WAIT = 10.0  # seconds that feedback waits for other writers, as writes of the MCP server do


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command ``explore``."""
    command = commands.add_parser(
        "explore", help="open a local page that shows the contents and the associations of an index"
    )
    command.add_argument("index", type=terminal.path, help="folder of the index")
    command.add_argument("query", nargs="?", help="first question, in words")
    command.add_argument("--id", help="id of a memory as the first query, instead of a question")
    command.add_argument(
        "--model", help="sentence-transformers model, by name or folder (default: the model of the index)"
    )
    add_tenant(command)
    command.add_argument("--port", type=int, default=0, help="port on localhost; 0 chooses a free one (default: 0)")
    command.add_argument("--no-browser", action="store_true", help="print the address without opening a browser")
    command.add_argument("--write", action="store_true", help="allow the page to store feedback")
    command.add_argument(
        "--export",
        type=terminal.path,
        metavar="FILE.html",
        help="write one question and its neighbourhood to a file instead",
    )
    command.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Serves the page until Ctrl-C, or writes it to the file of --export."""
    from pam_retriever.explore import Source, explore  # other commands start without a server

    if parsed.query is not None and parsed.id is not None:
        raise InvalidInput("Got a question and --id.", "one of them", "Leave one out.")
    if parsed.query is not None and not parsed.query.strip():
        raise InvalidInput("Got an empty text.", "a question in words, or none", "Leave it out.")
    if parsed.export is not None:
        terminal.refuse(parsed, ("port", "write"), "--export", "a page to serve")
        if parsed.query is None:
            terminal.refuse_model(parsed, "--export of a memory")
    os.environ["HF_HUB_OFFLINE"] = "1"  # the explorer opens no connection to other machines
    model: TextModel | None = None

    def reading() -> AbstractContextManager[PredictiveAssociativeIndex]:
        # a reader sees the commits of a writer
        opened = PredictiveAssociativeIndex.open(parsed.index, embedder=model, read_only=True, follow=True)
        return within(opened, parsed)

    @contextmanager
    def writing() -> Iterator[PredictiveAssociativeIndex]:
        with within(_to_write(parsed.index, model), parsed) as index:
            yield index

    with ExitStack() as held:
        index = held.enter_context(reading())
        model = _model(parsed, index.embedder_name)
        if model is not None:
            held.close()
            index = held.enter_context(reading())
        terminal.check_known(parsed.id, index)
        if parsed.export is not None:
            _export(index, parsed)
            return
        source = Source(
            index,
            refresh=index.refresh,
            writable=writing if parsed.write else None,
            check=lambda: repair.check(parsed.index, parsed.tenant),
            texts=model is not None,
        )
        if model is not None:  # loading takes seconds, so the page opens first
            threading.Thread(target=lambda: model.encode_query(["a question"]), daemon=True).start()
        begin = f"ask?q={quote(parsed.query)}" if parsed.query else f"ask?id={quote(parsed.id)}" if parsed.id else ""
        explore(source, parsed.port, not parsed.no_browser, begin).wait()


def _to_write(folder: Path, model: TextModel | None) -> PredictiveAssociativeIndex:
    """Opens the index for writing, after other programs have closed it.

    Raises:
        IndexLocked: another program had it open for longer than ``WAIT``.
    """
    try:
        return PredictiveAssociativeIndex.open(folder, embedder=model, lock_timeout=WAIT)
    except IndexLocked as error:
        raise IndexLocked(
            f"{error.got} Nothing was stored.", f"a turn within {WAIT:g} s", "Close the index there, or try again."
        ) from error


def _model(parsed: argparse.Namespace, used: str | None) -> TextModel | None:
    """Returns the model of the index if it is on this machine; else None, and the page accepts only ids as queries."""
    if parsed.model is None:
        return None if used is None or not is_local(used) else TextModel(model_of_index(used))
    if not is_local(parsed.model):
        raise InvalidInput(
            f"Got --model {parsed.model}, which is not on this machine.", "a model that is here", "Download it first."
        )
    return TextModel(DEFAULT if parsed.model == DEFAULT_MODEL else parsed.model)


def _export(index: PredictiveAssociativeIndex, parsed: argparse.Namespace) -> None:
    from pam_retriever.explore import report

    chosen = _first(index) if parsed.query is None and parsed.id is None else parsed.id
    question = {"text": parsed.query} if parsed.query else {"id": chosen}
    _write(parsed.export, report.write(index, question))
    of = "" if chosen == parsed.id else f", of the first memory, {chosen!r}: a question or --id chooses another"
    print(f"Wrote {parsed.export}{of}")


def _write(path: Path, text: str) -> None:
    """Writes a file completely, or leaves it as it was."""
    direct = path.is_symlink() or (path.exists() and not path.is_file())  # such as /dev/stdout
    try:
        with nullcontext(path) if direct else replacing(path) as written:
            written.write_text(text, "utf-8")
    except OSError as error:
        error.filename = str(path)  # the system names no file if the disk is full
        raise


def _first(index: PredictiveAssociativeIndex) -> str:
    """Returns the id of the memory to show first: the first with experience, or the first of all."""
    held = index.trajectories(limit=1)
    if held and held[0].ids:
        return held[0].ids[0]
    found = index.find(limit=1)
    if not found:
        raise InvalidInput("The index has no memories.", "one at least", "Add some first.")
    return found[0].id
