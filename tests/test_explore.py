"""The explorer's server controls access, and its numbers agree with the index."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
import time
from importlib.util import find_spec
from types import SimpleNamespace
from unittest.mock import Mock
from urllib.parse import quote

import numpy as np
import pytest
from engine_servers import ENGINES, fresh_engine
from explore_samples import DIM, HOSTILE, embed, exploring, fetch, fill, send, turns
from test_durability import Limit

from pam_retriever import FitConfig, InvalidInput, MissingExtra, PredictiveAssociativeIndex, evaluate
from pam_retriever.apps.cli import main
from pam_retriever.explore import pictures, report
from pam_retriever.explore.loopback import hosts_at, listen
from pam_retriever.explore.server import make_app
from pam_retriever.explore.source import Source

QUESTION = "Who mended the kitchen tap?"
SINK = "2026-03-05/0"


@pytest.fixture(scope="module")
def dialogue() -> PredictiveAssociativeIndex:
    """Shared: tests must not change it."""
    return fill(PredictiveAssociativeIndex(dim=DIM, embedder=embed))


@pytest.fixture(scope="module")
def address(dialogue):
    with exploring(dialogue) as explorer:
        yield explorer.address


@pytest.fixture
def live():
    return fill(PredictiveAssociativeIndex(dim=DIM, embedder=embed), fit=False)


# ---- access control


def test_it_listens_on_localhost_only_and_prints_its_address(dialogue, capsys):
    with exploring(dialogue) as explorer:
        assert capsys.readouterr().out == explorer.address + "\n"
        assert explorer.address.startswith("http://127.0.0.1:")
        port = int(explorer.address.split(":")[2].split("/")[0])
        own = socket.gethostbyname(socket.gethostname())
        if not own.startswith("127."):
            with pytest.raises(OSError, match=r"."):
                socket.create_connection((own, port), timeout=2)
    with pytest.raises(OSError, match=r"."):
        socket.create_connection(("127.0.0.1", port), timeout=2)


@pytest.mark.parametrize("path", ["/api/health", "/api/memory?id=x", "/api/map", "/api/nothing"])
@pytest.mark.parametrize("token", ["", "wrong", "é"])
def test_a_wrong_token_is_refused(address, path, token):
    status, content, _ = send(address, path, token=token.encode().decode("latin-1"))
    assert status == 403
    assert b"token" in content


def test_the_page_needs_the_token_in_its_address(address):
    base = address.partition("?")[0]
    # ``send`` passes the token as a header, which is valid only for requests of the page
    assert send(address, "/")[0] == 403
    assert send(address, "/?token=wrong")[0] == 403
    status, content, _ = send(address, address.removeprefix(base[:-1]))
    assert status == 200
    assert b"<!doctype html>" in content


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
@pytest.mark.parametrize("path", ["/api/health", "/static/main.js"])
def test_other_hosts_and_origins_are_refused(address, path, headers):
    assert send(address, path, **headers)[0] == 403


@pytest.mark.parametrize(
    ("port", "host", "origin", "status"),
    [
        (80, "127.0.0.1", "http://127.0.0.1", 200),
        (80, "localhost", "http://localhost", 200),
        (80, "localhost:80", "http://localhost:80", 200),
        (80, "evil.example", "http://localhost", 403),
        (80, "localhost", "https://localhost", 403),
        (8080, "localhost", "http://localhost", 403),
        (443, "localhost", "http://localhost", 403),
    ],
)
def test_browsers_leave_out_the_port_80(port, host, origin, status):
    """Nobody could open the page of a server at port 80."""
    app, sent = make_app(Source(PredictiveAssociativeIndex(2)), "token", hosts_at(port)), []

    async def send_to_list(message):
        sent.append(message)

    async def nothing_more():
        return {"type": "http.disconnect"}

    headers = {"host": host, "origin": origin, "authorization": "Bearer token"}
    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    place = {"path": "/api/health", "query_string": b"", "root_path": "", "headers": named}
    asyncio.run(app({"type": "http", "method": "GET", **place}, nothing_more, send_to_list))
    assert sent[0]["status"] == status


def test_its_own_origin_may_ask(address):
    assert send(address, "/api/health", Origin=address.partition("/?")[0])[0] == 200


def test_every_answer_forbids_what_the_page_does_not_need(address):
    for path in ("/static/main.js", "/api/health", "/api/nothing"):
        headers = {name.lower(): value for name, value in send(address, path)[2].items()}
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_the_page_has_no_inline_script_and_nothing_from_elsewhere(address):
    _, content, _ = send(address, address.removeprefix(address.partition("/?")[0]))
    assert b"http" not in content.replace(b"http-equiv", b"")
    assert b'<script type="module" src="/static/main.js"></script>' in content
    assert content.count(b"<script") == 1
    assert b"style=" not in content


def test_a_write_without_permission_is_refused(address, dialogue):
    given = {"text": "q", "request": "r", "used": [SINK], "unused": []}
    status, content, _ = send(address, "/api/feedback", given)
    assert status == 403
    assert "--write" in json.loads(content)["problem"]
    assert dialogue.feedbacks() == []


@pytest.mark.parametrize("path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py"])
def test_only_the_files_of_the_page_are_served(address, path):
    assert send(address, path)[0] == 404


# ---- the numbers


def plain_hits(hits: list[dict]) -> list[dict]:
    return [{name: value for name, value in hit.items() if name not in ("length", "name")} for hit in hits]


def as_json(hits) -> list[dict]:
    return json.loads(json.dumps([{**hit, "text": hit["text"][:2000]} for hit in hits.to_dicts()]))


@pytest.mark.parametrize("where", [None, {"speaker": "Ann"}])
def test_an_answer_has_the_numbers_of_recall(address, dialogue, where):
    answer = fetch(address, "/api/ask", {"text": QUESTION, "k": 7, "where": where})
    assert plain_hits(answer["happened"]) == as_json(dialogue.recall(text=QUESTION, k=7, where=where, explain=True))
    assert plain_hits(answer["looks"]) == as_json(dialogue.search(text=QUESTION, k=7, where=where))
    assert answer["cue"] is None


def test_a_memory_is_asked_by_its_id(address, dialogue):
    answer = fetch(address, "/api/ask", {"id": SINK})
    assert plain_hits(answer["happened"]) == as_json(dialogue.recall(SINK, explain=True))
    assert answer["cue"]["text"].startswith("Ann: Mr. Okafor")
    assert set(answer["sources"]) == {name for hit in answer["happened"] for name in hit["sources"]}


def test_a_source_is_switched_off_and_can_be_switched_on(address, dialogue):
    answer = fetch(address, "/api/ask", {"text": QUESTION, "without": ["words"]})
    assert plain_hits(answer["happened"]) == as_json(dialogue.recall(text=QUESTION, explain=True, without=["words"]))
    assert "words" in answer["sources"]


def test_a_stretch_of_time_limits_both_columns(address, dialogue):
    """A period limits both columns of an answer: similar memories, and memories experienced with the query."""
    times = fetch(address, "/api/times")["times"]
    assert sum(times["counts"]) == 72  # only the turns have a time
    assert (times["kind"], len(times["counts"])) == ("dates", 60)
    during = ["2026-03-05T00:00:00+00:00", "2026-03-14"]
    then = {"$time": {"$gte": during[0], "$lt": during[1]}}
    answer = fetch(address, "/api/ask", {"text": QUESTION, "during": during})
    assert plain_hits(answer["happened"]) == as_json(dialogue.recall(text=QUESTION, where=then, explain=True))
    assert plain_hits(answer["looks"]) == as_json(dialogue.search(text=QUESTION, where=then))
    both = {"$and": [{"speaker": "Ann"}, {"$time": {"$gte": during[0]}}]}
    answer = fetch(
        address, "/api/ask", {"text": QUESTION, "where": {"speaker": "Ann"}, "during": [during[0], None], "k": 5}
    )
    assert [hit["id"] for hit in answer["looks"]] == dialogue.search(text=QUESTION, where=both, k=5).ids
    near = fetch(address, "/api/neighbourhood", {"text": QUESTION, "during": during})
    assert {node["id"] for node in near["nodes"]} - {""} <= set(dialogue.search(text=QUESTION, k=76, where=then).ids)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({}, "question"),
        ([], "question"),
        ({"text": "a", "id": "b"}, "question"),
        ({"text": 3}, "question"),
        ({"text": "a", "k": 0}, "k"),
        ({"text": "a", "k": 10**9}, "k"),
        ({"text": "a", "where": "x"}, "filter"),
        ({"text": "a", "where": {"$no": 1}}, "$no"),
        ({"text": "a", "without": ["magic"]}, "magic"),
        ({"text": "a", "without": "words"}, "list"),
        ({"text": "a", "during": "March"}, "pair"),
        ({"text": "a", "during": ["in March", None]}, "in March"),
        ({"id": "nobody"}, "nobody"),
    ],
)
def test_an_invalid_question_gets_a_helpful_error(address, question, words):
    for path in ("/api/ask", "/api/neighbourhood", "/api/export"):
        status, content, _ = send(address, path, question)
        assert status in (400, 404), path
        assert words in json.loads(content)["problem"]


def test_before_a_fit_links_and_words_answer(live):
    with exploring(live) as explorer:
        assert fetch(explorer.address, "/api/health")["fit"] is None
        assert fetch(explorer.address, "/api/ask", {"text": QUESTION})["happened"]
        steps = fetch(explorer.address, "/api/session?id=2026-03-05")["steps"]
        assert [step["surprise"] for step in steps] == [None] * 6


def test_without_an_embedder_and_a_fit_ids_are_answered_and_words_are_refused():
    index = PredictiveAssociativeIndex(dim=3)
    index.add(np.eye(3), ["a", "b", "c"])
    with exploring(index) as explorer:
        assert fetch(explorer.address, "/api/health")["texts"] is False
        answer = fetch(explorer.address, "/api/ask", {"id": "a"})
        assert [hit["id"] for hit in answer["looks"]] == ["b", "c"]
        # without experience the ranking is by similarity
        assert [hit["id"] for hit in answer["happened"]] == ["b", "c"]
        status, content, _ = send(explorer.address, "/api/ask", {"text": "words"})
        assert status == 400
        assert "embedder" in json.loads(content)["problem"]


def test_an_empty_index_is_shown():
    with exploring(PredictiveAssociativeIndex(dim=3)) as explorer:
        assert fetch(explorer.address, "/api/health")["memories"] == 0
        assert fetch(explorer.address, "/api/sessions")["sessions"] == []
        assert send(explorer.address, "/api/map")[0] == 200


# ---- sessions, memories, health


def test_sessions_are_listed_page_by_page(address, dialogue):
    page = fetch(address, "/api/sessions")
    assert [one["id"] for one in page["sessions"]] == [one.id for one in dialogue.trajectories(limit=30)]
    assert page["sessions"][0]["begins"] == turns()[0]["text"]
    assert not page["more"]


@pytest.mark.parametrize(
    ("words", "found"),
    [("2026-03-05", "2026-03-05"), ("05-1", "2026-05-17"), (SINK, "2026-03-05"), ("sunscreen leaked", "2026-03-14")],
)
def test_a_session_is_found_by_name_memory_or_words(address, words, found):
    assert found in [one["id"] for one in fetch(address, f"/api/sessions?q={quote(words)}")["sessions"]]


def test_steps_have_the_surprise_of_the_index(address, dialogue):
    steps = fetch(address, "/api/session?id=2026-03-05&offset=0")["steps"]
    ids = [f"2026-03-05/{at}" for at in range(6)]
    assert [step["id"] for step in steps] == ids
    assert [step["surprise"] for step in steps] == pytest.approx(dialogue.surprise(ids))
    part = fetch(address, "/api/session?id=2026-03-05&offset=2")["steps"]
    assert [step["position"] for step in part] == [2, 3, 4, 5]
    assert [step["surprise"] for step in part] == pytest.approx([step["surprise"] for step in steps[2:]])


def test_an_unknown_session_is_an_error(address):
    assert send(address, "/api/session?id=nobody")[0] == 404


def test_a_memory_comes_whole(address):
    about = fetch(address, "/api/memory?id=long")
    assert about["text"].endswith("end")
    assert fetch(address, f"/api/memory?id={quote(HOSTILE)}")["metadata"] == {HOSTILE: HOSTILE, "title": HOSTILE}
    assert [one["id"] for one in fetch(address, f"/api/memory?id={SINK}")["sessions"]] == ["2026-03-05"]


def test_health_shows_the_fit_report(address, dialogue):
    health, fit = fetch(address, "/api/health"), dialogue.last_fit()
    assert health["fit"]["losses"] == list(fit.losses)
    assert health["fit"]["finished"] == fit.finished.isoformat()
    assert (health["memories"], health["experienced"], health["new_trajectories"]) == (76, 76, 0)
    assert {"session", "speaker"} <= set(health["fields"])


# ---- pictures


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_neighbourhood_has_exact_and_predicted_edges(address, dialogue, hops):
    found = fetch(address, "/api/neighbourhood", {"id": SINK, "hops": hops})
    nodes = {node["id"]: node for node in found["nodes"]}
    assert nodes[SINK]["hop"] == 0
    assert max(node["hop"] for node in nodes.values()) <= hops
    assert len(nodes) <= pictures.MOST_NODES
    assert {edge["from"] for edge in found["edges"]} | {edge["to"] for edge in found["edges"]} <= set(nodes)
    for edge in found["edges"][:10]:
        hit = next(hit for hit in dialogue.recall(edge["from"], k=12, explain=True) if hit.id == edge["to"])
        assert edge["score"] == pytest.approx(hit.score)
        assert edge["exact"] == bool(hit.evidence)


def test_a_neighbourhood_draws_who_names_whom():
    index = PredictiveAssociativeIndex(dim=3)
    titles = {"canteen": "Canteen", "mara": "Mara Holt", "garden": "Garden"}
    texts = ["The canteen is run by Mara Holt.", "She trained in Lyon.", "It opens at nine."]
    index.add(np.eye(3), list(titles), texts, [{"title": title} for title in titles.values()])
    with exploring(index) as explorer:
        edges = fetch(explorer.address, "/api/neighbourhood", {"id": "canteen"})["edges"]
    assert {edge["to"]: edge["named"] for edge in edges} == {"mara": ['"Canteen" names "Mara Holt"'], "garden": []}
    assert not any(edge["exact"] for edge in edges)


def test_a_neighbourhood_places_memories_by_direction_alone():
    index = PredictiveAssociativeIndex(dim=3)
    index.add([[1, 0, 0], [9, 0, 0], [0, 1, 0], [0, 0, 5]], ["a", "longer", "b", "c"])
    nodes = pictures.neighbourhood(index, {"id": "a"})["nodes"]
    at = {node["id"]: node["at"] for node in nodes}
    assert at["longer"] == pytest.approx(at["a"])
    assert np.ptp([at["a"], at["b"], at["c"]], axis=0).min() > 0.5


def drawn(content: bytes) -> tuple[dict, np.ndarray, np.ndarray]:
    length = int.from_bytes(content[:4], "little")
    head = json.loads(content[4 : 4 + length])
    rest = content[4 + length :]
    points = np.frombuffer(rest, "<f4", 2 * head["count"]).reshape(-1, 2)
    return head, points, np.frombuffer(rest, "<i2", offset=8 * head["count"])


def test_the_map_is_the_projection_of_the_index(address, dialogue):
    head, points, groups = drawn(send(address, "/api/map")[1])
    np.testing.assert_array_equal(points, dialogue.project().points)
    assert head["count"] == head["total"] == len(groups) == 76
    assert len(set(groups.tolist())) == 13  # the sessions
    assert groups.min() == 0  # of the first one; -1 would be none
    assert fetch(address, "/api/map/point?offset=75")["id"] == "w" * 300
    assert send(address, "/api/map/point?offset=76")[0] == 404


def test_the_map_is_coloured_by_a_field(address):
    head, _, groups = drawn(send(address, "/api/map?by=speaker")[1])
    assert sorted(head["legend"]["values"]) == ["Ann", "Ben"]
    assert sorted(set(groups.tolist())) == [-1, 0, 1]


def test_a_field_of_numbers_is_a_ramp_and_many_values_are_others():
    index = PredictiveAssociativeIndex(dim=4)
    random = np.random.default_rng(0)
    metadatas = [{"n": at, "name": f"v{at}", "few": at % 2} for at in range(40)]
    index.add(random.standard_normal((40, 4)), [str(at) for at in range(40)], metadatas=metadatas)
    maps = pictures.Maps()
    head, _, groups = drawn(maps.drawn(index, "n", 0))
    assert head["legend"] == {"kind": "order", "from": "0", "to": "39"}
    assert (groups[0], groups[39]) == (0, 255)
    head, _, groups = drawn(maps.drawn(index, "name", 0))
    assert (len(head["legend"]["values"]), head["legend"]["others"]) == (10, 30)
    assert drawn(maps.drawn(index, "few", 0))[0]["legend"]["values"] == ["0", "1"]


def test_umap_is_offered_where_it_is_installed(address):
    installed = find_spec("umap") is not None
    assert fetch(address, "/api/health")["umap"] is installed
    if not installed:
        status, content, _ = send(address, "/api/map?method=umap")
        assert (status, "umap" in json.loads(content)["problem"]) == (400, True)


def test_the_map_is_updated_after_an_add():
    index, maps = PredictiveAssociativeIndex(dim=4), pictures.Maps()
    index.add(np.eye(4), list("abcd"))
    assert drawn(maps.drawn(index, None, 0))[0]["count"] == 4
    index.add(np.ones((1, 4)), ["e"])
    assert drawn(maps.drawn(index, None, 0))[0]["count"] == 5


# ---- feedback


def test_what_helped_is_stored_replaced_and_taken_back(live):
    with exploring(live, write=True) as explorer:

        def send_feedback(used, unused):
            given = {"text": QUESTION, "request": "explorer:1", "used": used, "unused": unused}
            return fetch(explorer.address, "/api/feedback", given)

        assert send_feedback([SINK], ["2026-03-05/1"])["id"] == "explorer:1"
        (stored,) = live.feedbacks()
        assert (stored.text, stored.used) == (QUESTION, {SINK: 1.0, "2026-03-05/1": -1.0})
        assert fetch(explorer.address, f"/api/memory?id={SINK}")["requests"][0]["text"] == QUESTION
        answer = fetch(explorer.address, "/api/ask", {"text": QUESTION, "k": 76})["happened"]
        assert next(hit for hit in answer if hit["id"] == SINK)["sources"]["requests"] != 0
        send_feedback([], ["2026-03-05/1"])
        assert live.feedbacks()[0].used == {"2026-03-05/1": -1.0}
        assert send_feedback([], [])["deleted"] == 1
        assert live.feedbacks() == []


def test_what_helped_a_memory_is_stored_with_its_vector(live):
    with exploring(live, write=True) as explorer:
        fetch(explorer.address, "/api/feedback", {"id": SINK, "request": "r", "used": ["2026-03-02/4"], "unused": []})
    (stored,) = live.feedbacks()
    np.testing.assert_array_equal(stored.vector, live.get([SINK])[0].vector)


@pytest.mark.parametrize("given", [{}, {"used": [SINK]}, {"used": "x", "unused": [], "request": "r"}])
def test_empty_feedback_is_refused(live, given):
    with exploring(live, write=True) as explorer:
        assert send(explorer.address, "/api/feedback", {"text": "q", **given})[0] == 400
    assert live.feedbacks() == []


# ---- the command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("explored") / "index"
    fill(PredictiveAssociativeIndex(dim=DIM, embedder=embed)).save(path)
    return path


def test_the_command_writes_a_file_of_a_question(folder, tmp_path, capsys):
    target = tmp_path / "report.html"
    assert main(["explore", str(folder), "--id", SINK, "--export", str(target)]) == 0
    assert capsys.readouterr().out == f"Wrote {target}\n"
    text = target.read_text("utf-8")
    assert "Mr. Okafor" in text
    assert "met in" in text


def test_the_command_says_which_memory_it_wrote_without_a_question(folder, tmp_path, capsys):
    target = tmp_path / "report.html"
    assert main(["explore", str(folder), "--export", str(target)]) == 0
    assert turns()[0]["text"] in target.read_text("utf-8")
    said = capsys.readouterr().out
    assert f"Wrote {target}" in said
    assert "of the first memory" in said
    assert turns()[0]["id"] in said
    assert "--id" in said


@pytest.mark.parametrize("before", [None, "an older page"])
def test_a_full_disk_leaves_the_file_as_it_was(folder, tmp_path, capsys, before):
    target = tmp_path / "report.html"
    if before:
        target.write_text(before)
    with PredictiveAssociativeIndex.open(folder, read_only=True), Limit(4096):  # the files of a reader are there
        assert main(["explore", str(folder), "--id", SINK, "--export", str(target)]) == 2
    said = capsys.readouterr().err
    assert f"{target}: File too large. Expected" in said
    assert "call again" in said
    assert [path.read_text() for path in tmp_path.iterdir()] == ([before] if before else [])


def test_a_folder_with_the_name_of_an_unfinished_page_is_left_alone(folder, tmp_path):
    kept = tmp_path / "page.html.new" / "notes.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    assert main(["explore", str(folder), "--id", SINK, "--export", str(tmp_path / "page.html")]) == 2
    assert kept.read_text() == "mine"


def test_a_page_goes_to_the_standard_output(folder, capfd):
    assert main(["explore", str(folder), "--id", SINK, "--export", "/dev/stdout"]) == 0
    assert "Mr. Okafor" in capfd.readouterr().out


def test_the_file_needs_nothing_else_and_runs_nothing(dialogue):
    text = report.write(dialogue, {"id": HOSTILE})
    assert "<script" not in text
    assert "<img" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "default-src 'none'" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--id", "nobody", "--export", "x.html"], "nobody"),
        (["question", "--id", "a"], "one of them"),
        (["--port", "70000", "--no-browser"], "port"),
        (["--model", "no/such", "--no-browser"], "not on this machine"),
        (["a question", "--export", "x.html"], "embedder"),
        (["--export", "x.html", "--write"], "Got --write with --export."),
        (["--export", "x.html", "--port", "8000"], "Got --port with --export."),
        (["--id", SINK, "--export", "x.html", "--model", "default"], "Got --model with --export of a memory."),
    ],
)
def test_an_invalid_command_gets_a_helpful_error(folder, tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert main(["explore", str(folder), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_port_in_use_is_an_error(dialogue):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidInput, match="cannot be used"):
            dialogue.explore(taken.getsockname()[1], browser=False, wait=False)


@pytest.mark.parametrize(
    ("prompt", "options", "waits"), [({}, {}, 1), ({"ps1": ">>> "}, {}, 0), ({"ps1": ">>> "}, {"wait": True}, 1)]
)
def test_it_waits_in_a_script_and_not_at_a_prompt_unless_told(dialogue, monkeypatch, prompt, options, waits):
    opened = Mock()
    monkeypatch.setattr("pam_retriever.explore.explore", opened)
    monkeypatch.setattr("pam_retriever.index.inspecting.sys", SimpleNamespace(modules={}, **prompt))
    assert dialogue.explore(browser=False, **options) is opened.return_value
    assert opened.return_value.wait.call_count == waits


def test_it_closes_although_a_request_never_ends(dialogue, monkeypatch):
    monkeypatch.setattr("pam_retriever.explore.serving.GRACE", 0)
    with exploring(dialogue) as explorer:
        place = explorer.address.split("/")[2]
        token = explorer.address.partition("token=")[2]
        head = f"POST /api/ask HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer {token}\r\nContent-Length: 9\r\n\r\n"
        with socket.create_connection(("127.0.0.1", int(place.split(":")[1])), timeout=10) as stalled:
            stalled.sendall(head.encode())
            while not explorer._server.server_state.tasks:
                time.sleep(0.005)
            closing = threading.Thread(target=explorer.close, daemon=True)
            closing.start()
            closing.join(10)
            assert not closing.is_alive()


def test_a_port_accepts_connections_before_its_address_is_printed():
    with listen(0) as listening, socket.create_connection(listening.getsockname(), timeout=10):
        pass


def test_a_missing_extra_is_named_by_explore(dialogue, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtra, match="explore"):
        dialogue.explore(browser=False, wait=False)


def test_a_tenant_is_shown_alone(tmp_path, capsys):
    """The file of a tenant has no text of another tenant, nor of the index that contains the tenants."""
    path, target = tmp_path / "index", tmp_path / "report.html"
    with PredictiveAssociativeIndex.open(path, DIM) as whole:
        whole.add(np.eye(DIM)[:2], ["shared", "other"], texts=["of everybody", "other"])
        for name in ("ann", "bob"):
            tenant = whole.tenant(name)
            tenant.add(np.eye(DIM)[:2], ["shared", "next"], texts=[f"text of {name}", f"more of {name}"])
            tenant.observe(["shared", "next"])
    assert main(["explore", str(path), "--tenant", "ann", "--id", "shared", "--export", str(target)]) == 0
    text = target.read_text("utf-8")
    assert "more of ann" in text
    assert "of everybody" not in text
    assert "bob" not in text
    assert main(["explore", str(path), "--tenant", "carl", "--no-browser"]) == 2
    assert "no tenant 'carl'" in capsys.readouterr().err
    with PredictiveAssociativeIndex.open(path, read_only=True) as whole:
        assert whole.tenants() == ["ann", "bob"]


def test_sources_are_evaluated_as_recall_is(dialogue):
    """``evaluate`` compares recall with and without a source: a switch of the page is an option of recall."""
    relevant = [{"2026-03-05/1"}, {"2026-03-05/2"}]
    plain = evaluate(dialogue, [SINK, "2026-03-05/1"], relevant, ks=(3,))
    blind = evaluate(
        dialogue,
        [SINK, "2026-03-05/1"],
        relevant,
        ks=(3,),
        recall=lambda query, k: dialogue.recall(query, k=k, without=["experience", "prediction"]),
    )
    assert plain["recall@3"].mean > blind["recall@3"].mean


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_an_index_in_an_engine_is_shown(engine):
    said = turns()[:18]
    index = PredictiveAssociativeIndex(dim=DIM, backend=fresh_engine(engine), embedder=embed)
    index.add(ids=[turn["id"] for turn in said], texts=[turn["text"] for turn in said])
    for start in range(0, 18, 6):
        index.observe([turn["id"] for turn in said[start : start + 6]])
    index.fit(window=3, config=FitConfig(hidden=16, passes=5), progress=False)
    with exploring(index) as explorer:
        answer = fetch(explorer.address, "/api/ask", {"id": SINK})
        assert plain_hits(answer["happened"]) == as_json(index.recall(SINK, explain=True))
        assert fetch(explorer.address, "/api/ask", {"text": QUESTION})["happened"]
        assert drawn(send(explorer.address, "/api/map")[1])[0]["count"] == 18
        assert fetch(explorer.address, f"/api/memory?id={SINK}")["sessions"]
        (first, *_) = fetch(explorer.address, "/api/sessions")["sessions"]
        assert len(fetch(explorer.address, f"/api/session?id={first['id']}")["steps"]) == 6
        health = fetch(explorer.address, "/api/health")
        assert health["memories"] == 18
        assert health["fit"]["losses"]
        assert fetch(explorer.address, "/api/neighbourhood", {"id": SINK})["edges"]
    index.close()
