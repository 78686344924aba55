"""The command line, ``pam-retriever``: reads events and documents, and asks, shows, checks and serves indexes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from pam_retriever.__about__ import __version__
from pam_retriever.apps import drawn as drawing
from pam_retriever.apps import exploring, table, terminal
from pam_retriever.apps.code import commands as code
from pam_retriever.apps.contents import describe
from pam_retriever.apps.events import EventWriter, check_used
from pam_retriever.apps.mcp import commands as agents
from pam_retriever.apps.tenant import add_tenant, asked, tenant_of, within
from pam_retriever.apps.terminal import Parser, json_object
from pam_retriever.embedding import Embedder
from pam_retriever.embedding.text_models import DEFAULT, DEFAULT_MODEL, model_of_index
from pam_retriever.errors import InvalidInput, PAMError, counted
from pam_retriever.experience.json_lines import EventLog, Fields
from pam_retriever.index import PredictiveAssociativeIndex, learning
from pam_retriever.store.folder.manifest import has_manifest
from pam_retriever.types import Direction, Hit, Hits
from pam_retriever.validation import check_tenant

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

NOTHING_TO_FIT = "nothing to fit: no session has two events. Recall uses words and similarity."
DOCUMENTS_NEED_NO_FIT = "nothing to train: recall finds documents by words, names, links and similarity."
NO_SESSIONS = "; '' for events without sessions"
SHOWN = 20  # number of tenant names that ``inspect`` lists


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status: 2 for a user error, 1 for a damaged index."""
    # torch's threads would spin while another program uses their core: a fit beside one took ten times as long
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is loaded
    terminal.prepare()
    parsed = _parser().parse_args(arguments)
    try:
        status = int(parsed.run(parsed) or 0)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        terminal.end_output()
        return terminal.CLOSED_PIPE
    except (PAMError, OSError, UnicodeDecodeError) as error:
        print(f"pam-retriever: {terminal.message(error, parsed)}", file=sys.stderr)
        terminal.end_output()
        return 2
    except KeyboardInterrupt:
        print("\npam-retriever: interrupted", file=sys.stderr)
        return 130


def _demo(parsed: argparse.Namespace) -> None:
    from pam_retriever.apps import demo

    demo.run(parsed.trajectories)


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = Parser(prog="pam-retriever", description="Finds what happened with a query.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="command")

    _add_fit(commands)
    _add_feedback(commands)
    exploring.add_command(commands)
    for name, run, words in (
        ("recall", _recall, "find memories that happened with the query"),
        ("search", _search, "find memories that are similar to the query"),
    ):
        command = commands.add_parser(name, help=words)
        command.add_argument("index", type=terminal.path, help="folder of the index")
        command.add_argument("query", nargs="?", help="a text, embedded with the model of the index")
        _add_model(command)
        add_tenant(command)
        command.add_argument("--id", help="id of a memory as the query, instead of a text")
        command.add_argument("-k", type=int, default=10, help="number of hits (default: 10)")
        command.add_argument("--where", type=json_object, help='metadata filter as JSON: \'{"year": {"$gte": 2020}}\'')
        command.add_argument("--json", action="store_true", help="print one JSON object per hit")
        command.set_defaults(run=run)
        if name == "recall":
            command.add_argument("--mode", help="hybrid, association, similarity or specific (default: all evidence)")
            command.add_argument("--feedback-where", type=json_object, help="metadata filter of the feedback to use")
            command.add_argument("--hops", type=int, default=1, help="number of steps of association (default: 1)")
            command.add_argument(
                "--cue-where",
                type=json_object,
                help="metadata filter that the memory of --id must satisfy, instead of --where; {} allows all",
            )
            command.add_argument(
                "--when", help='only memories of this time: "last week"; without a query, all of them, newest first'
            )
            command.add_argument(
                "--direction",
                choices=get_args(Direction),
                help="use only links to memories after the query, or before it",
            )
            command.add_argument(
                "--faithful", action="store_true", help="only memories that were experienced with the query"
            )
            code.add_changed(command)

    inspect = commands.add_parser("inspect", help="show the contents of an index")
    inspect.add_argument("index", type=terminal.path, help="folder of the index")
    add_tenant(inspect)
    inspect.set_defaults(run=_inspect)

    _add_integrity(commands)
    code.add_git(commands, _add_model, _model)
    agents.add_mcp(commands, _model)

    show = commands.add_parser("demo", help="learn from synthetic data, and compare recall with similarity search")
    show.add_argument(
        "--trajectories", type=int, default=200, help="number of trajectories, of 100 states each (default: 200)"
    )
    show.set_defaults(run=_demo)
    return parser


def _add_integrity(commands: Commands) -> None:
    for name, examine, words in (
        ("check", _check, "read the whole index and report damage, without changes"),
        ("repair", _repair, "rebuild a damaged index, and report which data are lost"),
    ):
        command = commands.add_parser(name, help=words)
        command.add_argument("index", type=terminal.path, help="folder of the index")
        command.set_defaults(run=examine)


def _add_fit(commands: Commands) -> None:
    fit = commands.add_parser("fit", help="read events from a JSONL file, or a folder of documents, into an index")
    fit.add_argument(
        "events",
        type=terminal.path,
        help="a JSONL file, or - for standard input: one event per line, with a text or a vector, and a session; "
        'or a request, with the key "used": ids of events. Or a folder of Markdown, text, reStructuredText and HTML',
    )
    fit.add_argument(
        "index", type=terminal.path, help="folder of the index; created if it does not exist, otherwise extended"
    )
    _add_model(fit)
    add_tenant(fit)
    of_events = [
        fit.add_argument(
            f"--{name}-field",
            default=default,
            help=f"key of {name!r} in an event (default: {default}{NO_SESSIONS if name == 'session' else ''})",
        )
        for name, default in asdict(Fields()).items()
    ]
    of_events += [
        fit.add_argument("--window", type=int, default=5, help="largest distance of associated steps (default: 5)"),
        fit.add_argument("--config", default="fast", help="training recipe: fast, best or paper (default: fast)"),
        fit.add_argument("--device", default="auto", help="cpu or cuda (default: auto: CUDA if there is one)"),
        fit.add_argument("--seed", type=int, default=0, help="the same seed gives the same index (default: 0)"),
        fit.add_argument("--time-budget", type=float, help="largest training time in seconds"),
    ]
    fit.add_argument("--name", help="name of a folder of documents in the index (default: its own name)")
    fit.set_defaults(run=_fit, of_events=of_events)


def _add_feedback(commands: Commands) -> None:
    command = commands.add_parser("feedback", help="store which memories served a question, for similar questions")
    command.add_argument("index", type=terminal.path, help="folder of the index")
    command.add_argument("query", help="the question, embedded with the model of the index")
    _add_model(command)
    add_tenant(command)
    command.add_argument("--used", nargs="+", default=[], metavar="ID", help="memories that served the question")
    command.add_argument("--unused", nargs="+", default=[], metavar="ID", help="memories that did not help")
    command.add_argument("--metadata", type=json_object, help='metadata of the feedback as JSON: \'{"user": "ann"}\'')
    command.set_defaults(run=_feedback)


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--model",
        help=f"sentence-transformers model, by name or folder (default: the model of the index, else {DEFAULT!r}: "
        f"{DEFAULT_MODEL}, which needs no network)",
    )
    command.add_argument(
        "--same-embedder",
        action="store_true",
        help="the model made the vectors of the index, although its name differs",
    )


def _to_read(parsed: argparse.Namespace) -> AbstractContextManager[PredictiveAssociativeIndex]:
    """Opens an index, or the given tenant, for reading. A writer may have it open at the same time."""
    return within(PredictiveAssociativeIndex.open(parsed.index, read_only=True), parsed)


def _model(parsed: argparse.Namespace, used: str | None) -> str:
    """Returns the requested model, else the model of the index, else the default."""
    return parsed.model or model_of_index(used)


@contextmanager
def _opened(parsed: argparse.Namespace, dim: int | None) -> Iterator[PredictiveAssociativeIndex]:
    """Opens the index in a folder, or the given tenant; creates it if it does not exist.

    Args:
        parsed: the options of the command.
        dim: dimension of the given vectors; None if there are only texts, which the embedder embeds.
    """
    with _opened_whole(parsed, dim) as whole:
        yield whole if parsed.tenant is None else whole.tenant(parsed.tenant)


def _opened_whole(parsed: argparse.Namespace, dim: int | None) -> PredictiveAssociativeIndex:
    if dim is not None:
        terminal.refuse_model(parsed, "events that have vectors")
        return PredictiveAssociativeIndex.open(parsed.index, dim=dim)
    used = None
    if has_manifest(parsed.index):
        with PredictiveAssociativeIndex.open(parsed.index, read_only=True) as index:
            used = index.embedder_name
            if parsed.tenant is not None and check_tenant(parsed.tenant) in index.tenants():
                used = index.tenant(parsed.tenant).embedder_name
    model = _model(parsed, used)
    return PredictiveAssociativeIndex.open(parsed.index, embedder=model, same_embedder=parsed.same_embedder)


def _fit(parsed: argparse.Namespace) -> None:
    if parsed.events.is_dir():
        _fit_folder(parsed)
        return
    if parsed.name is not None:
        raise InvalidInput(f"Got --name with the file {parsed.events}.", "a folder of documents", "Leave it out.")
    learning.read_request(parsed.window, parsed.config, parsed.device, parsed.seed, parsed.time_budget)
    fields = Fields(**{name: getattr(parsed, f"{name}_field") for name in asdict(Fields())})
    with EventLog(parsed.events, fields) as log:
        contents = log.check()  # before anything is stored
        if not contents.events and not has_manifest(parsed.index):
            raise InvalidInput(f"{log.name} has only requests.", "the events that they used", "Add events.")
        if not has_manifest(parsed.index):
            check_used(contents, None)  # before the index is created
        with _opened(parsed, contents.dim) as index, EventWriter(index, log, contents, fields.time) as storing:
            check_used(contents, index)
            storing.run()
            grouped = contents.events > 0 and bool(fields.session) and storing.shares(fields.session)
            if not (grouped or index.trajectories(limit=1) or index.feedbacks(limit=1)):
                print(f"{storing}\n{NOTHING_TO_FIT}\n{index}")
                return
            report = index.fit(
                group_by=fields.session if grouped else None,
                order_by=fields.time if grouped and contents.timed else None,
                window=parsed.window,
                config=parsed.config,
                device=parsed.device,
                seed=parsed.seed,
                time_budget=parsed.time_budget,
            )
            print(f"{storing}\n{report}\n{index}")


def _fit_folder(parsed: argparse.Namespace) -> None:
    from pam_retriever.apps import documents

    documents.check_folder(parsed)
    with _opened(parsed, None) as index:
        print(f"{documents.store_folder(index, parsed.events, parsed.name)}\n{DOCUMENTS_NEED_NO_FIT}\n{index}")


def _feedback(parsed: argparse.Namespace) -> None:
    if not parsed.used and not parsed.unused:
        raise InvalidInput("Got neither --used nor --unused.", "ids of memories", "recall and search print ids.")
    with PredictiveAssociativeIndex.open(parsed.index) as whole:
        index = asked(whole, parsed)
        vector = _query(index, parsed)
        print(index.feedback(vector, parsed.used, unused=parsed.unused, text=parsed.query, metadata=parsed.metadata))


def _recall(parsed: argparse.Namespace) -> None:
    with _to_read(parsed) as index:
        if parsed.cue_where is not None and parsed.id is None:
            raise InvalidInput("Got --cue-where without --id.", "--id", "Use --where alone for a text.")
        if parsed.hops > 1 and parsed.query is not None and parsed.mode in (None, "hybrid"):
            raise InvalidInput(
                f"Got --hops {parsed.hops} with a question in words.",
                "one hop, or an --id",
                "Pass --mode association, which asks by the question's vector alone.",
            )
        if parsed.when is not None and parsed.query is None and parsed.id is None and parsed.changed is None:
            terminal.refuse_model(parsed, "--when alone")
            names = ("k", "where", "when", "mode", "hops", "feedback_where", "faithful", "direction")
            options = {name: getattr(parsed, name) for name in names}
            _print(index.recall(explain=True, now=terminal.clock(), **options), parsed.json)
            return
        if code.is_asked(index, parsed):
            code.answer(index, parsed, _model)
            return
        text = parsed.query if parsed.mode in (None, "hybrid") else None
        hits = index.recall(
            _query(index, parsed),
            k=parsed.k,
            mode=parsed.mode or ("hybrid" if parsed.hops > 1 else None),
            hops=parsed.hops,
            where=parsed.where,
            cue_where=parsed.cue_where,
            when=parsed.when,
            faithful=parsed.faithful,
            explain=True,
            feedback_where=parsed.feedback_where,
            text=text,
            now=terminal.clock() if text is not None or parsed.when is not None else None,
            direction=parsed.direction,
        )
        _print(hits, parsed.json)


def _search(parsed: argparse.Namespace) -> None:
    with _to_read(parsed) as index:
        _print(index.search(_query(index, parsed), k=parsed.k, where=parsed.where), parsed.json)


def _query(index: PredictiveAssociativeIndex, parsed: argparse.Namespace) -> Any:
    id = getattr(parsed, "id", None)
    if (parsed.query is None) == (id is None):
        raise InvalidInput("Got no query, or two.", "a text or --id", "Pass one of them.")
    if id is not None:
        terminal.refuse_model(parsed, "--id")
        terminal.check_known(id, index)
        return id
    if not parsed.query.strip():
        raise InvalidInput("Got an empty text.", "a question in words", "Write it in quotation marks.")
    if parsed.model is None and index.embedder_name is None:
        if not len(index):
            raise InvalidInput(f"The index at {parsed.index} has no memories.", "some", "Add them with fit.")
        raise InvalidInput(
            f"The index at {parsed.index} was made from vectors.",
            "--id of a memory, or the --model that made them",
            "Use Python for vectors.",
        )
    embedder = Embedder(_model(parsed, index.embedder_name), same=parsed.same_embedder)
    embedder.check(index.embedder_name)
    return np.asarray(embedder.queries([parsed.query]), np.float32)[0]


def _print(hits: Sequence[Hit], as_json: bool) -> None:
    if as_json:
        for one in Hits(hits).to_dicts():
            print(terminal.json_line(one))
        return
    if not hits:
        print("pam-retriever: nothing was found", file=sys.stderr)
    elif table.can_print():
        table.print_table(hits)
        return
    for hit in hits:
        print(f"{hit.score:7.3f}  {terminal.safe(hit.id)}  {terminal.safe(hit.text or '')}")
        for evidence in (hit.evidence or ())[:1]:
            of = terminal.safe(f"{evidence.cue_id!r} in {evidence.trajectory}")
            print(f"         experienced {counted(evidence.offset, 'step', '+')} from {of}")
        for time in hit.times or ():
            print(f"         {terminal.safe(str(time))}")
        if hit.mentions:
            print(f"         {terminal.safe(', '.join(map(str, hit.mentions)))}")


def _inspect(parsed: argparse.Namespace) -> None:
    with PredictiveAssociativeIndex.open(parsed.index, read_only=True) as whole:
        index = tenant_of(whole, parsed)
        print(index)
        drawn = sys.stdout.isatty()
        if drawn:
            drawing.draw(index)
        for line in describe(index, sessions=not drawn):
            print(line)
        if parsed.tenant is None and whole.tenants():
            print(f"tenants: {len(whole.tenants()):,}, {', '.join(map(repr, whole.tenants()[:SHOWN]))}")


def _check(parsed: argparse.Namespace) -> int:
    from pam_retriever.store.folder import repair as integrity

    wrong = integrity.check(parsed.index)
    print("\n".join(wrong) or f"{parsed.index} is sound")
    return 1 if wrong else 0


def _repair(parsed: argparse.Namespace) -> int:
    from pam_retriever.store.folder import repair as integrity

    print("\n".join(integrity.repair(parsed.index)) or f"{parsed.index} is sound; nothing was changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
