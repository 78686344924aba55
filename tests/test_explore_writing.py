"""Feedback from the page of ``pam-retriever explore --write``, in separate processes and a browser."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from explore_samples import CHROMIUM, DIM, embed, fetch, fill, in_browser, send
from test_explore_browser import FLAGS, opened

from pam_retriever import PredictiveAssociativeIndex

SINK = "2026-03-05/0"
GIVEN = {"id": SINK, "request": "r", "used": ["2026-03-02/4"], "unused": []}
COMMAND = """
import sys
from pam_retriever.apps import exploring
from pam_retriever.apps.cli import main
exploring.WAIT = float(sys.argv[1])
main(["explore", *sys.argv[2:], "--no-browser", "--write"])
"""
WRITER = """
import sys
from pam_retriever import PredictiveAssociativeIndex
with PredictiveAssociativeIndex.open(sys.argv[1]) as index:
    index.add([[1.0] * index.dim], ["new"], texts=["a new memory"])
    print("holds", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "index"
    fill(PredictiveAssociativeIndex(dim=DIM, embedder=embed), fit=False).save(path)
    return path


@contextmanager
def running(code: str, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs code in a new process; yields the process and the first line that it prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        said = process.stdout.readline().strip()
        assert said
        yield process, said
    finally:
        process.terminate()
        process.wait(timeout=30)


def release(writer: subprocess.Popen[str]) -> None:
    writer.stdin.write("\n")
    writer.stdin.flush()


@pytest.mark.slow
def test_beside_a_writer_the_folder_is_read_and_feedback_waits_for_its_turn(folder):
    with running(COMMAND, 30, folder) as (_, address), ThreadPoolExecutor() as threads:
        with running(WRITER, folder) as (writer, _):
            assert fetch(address, "/api/ask", {"id": SINK})["looks"]  # reads do not wait
            assert fetch(address, "/api/refresh", {})["memories"] == 77
            sent = threads.submit(send, address, "/api/feedback", GIVEN)
            time.sleep(0.5)
            assert not sent.done()
            assert fetch(address, "/api/ask", {"id": SINK})["looks"]  # reads do not wait while a write waits, either
            release(writer)
            status, content, _ = sent.result(timeout=60)
            assert status == 200, content
        assert fetch(address, "/api/health")["requests"] == 1
        with PredictiveAssociativeIndex.open(folder, embedder=embed) as index:  # the explorer has released the folder
            assert [one.id for one in index.feedbacks()] == ["r"]
        assert fetch(address, "/api/check", {}) == {"wrong": []}


@pytest.mark.slow
def test_feedback_while_the_folder_is_locked_names_the_writer(folder):
    with running(COMMAND, 0.2, folder) as (_, address), running(WRITER, folder) as (writer, _):
        status, content, _ = send(address, "/api/feedback", GIVEN)
        assert status == 409
        said = json.loads(content)["problem"]
        assert f"process {writer.pid}" in said
        assert "0.2 s" in said
        assert "Nothing was stored" in said
        assert "read_only" not in said  # the message addresses users of the page, not programmers
        assert fetch(address, "/api/health")["requests"] == 0


@pytest.mark.slow
def test_two_clicks_at_once_are_both_stored(folder):
    with running(COMMAND, 30, folder) as (_, address), ThreadPoolExecutor() as threads:
        given = [{**GIVEN, "request": f"r{number}"} for number in range(6)]
        sent = list(threads.map(lambda one: send(address, "/api/feedback", one)[0], given))
        assert sent == [200] * 6
        assert fetch(address, "/api/health")["requests"] == 6


@pytest.mark.slow
def test_feedback_of_a_tenant_is_stored_in_that_tenant_alone(tmp_path):
    path = tmp_path / "index"
    with PredictiveAssociativeIndex.open(path, DIM) as whole:
        for index in (whole, whole.tenant("ann"), whole.tenant("bob")):
            index.add(np.eye(DIM)[:3], ["a", "b", "c"], texts=["one", "two", "three"])
    with running(COMMAND, 30, path, "--tenant", "ann") as (_, address):
        assert fetch(address, "/api/feedback", {"id": "a", "request": "r", "used": ["c"], "unused": []})["id"] == "r"
        assert fetch(address, "/api/health")["requests"] == 1  # the page shows the new feedback
        assert fetch(address, "/api/memory?id=c")["requests"][0]["weight"] == 1.0
        assert fetch(address, "/api/check", {}) == {"wrong": []}
    with PredictiveAssociativeIndex.open(path, read_only=True) as whole:
        assert [one.used for one in whole.tenant("ann").feedbacks()] == [{"c": 1.0}]
        assert whole.feedbacks() == whole.tenant("bob").feedbacks() == []
        assert whole.tenants() == ["ann", "bob"]


@pytest.mark.slow
@in_browser
def test_clicks_in_the_browser_wait_for_the_writer_and_the_last_one_counts(folder):
    playwright = pytest.importorskip("playwright.sync_api")
    with running(COMMAND, 60, folder) as (_, address), playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), timeout=60_000)
        for page in opened(browser, address):
            page.goto(f"{address}#ask?id={SINK}")
            page.wait_for_selector("#answer[data-drawn] .hit")
            first = page.locator("section[aria-labelledby=happened] .hit").first
            with running(WRITER, folder) as (writer, _):
                first.get_by_role("button", name="This one helped").click()
                first.get_by_text("another program writes").wait_for()
                # a second click, before the first is stored
                first.get_by_role("button", name="This one did not").click()
                release(writer)
                first.get_by_role("button", name="This one did not", pressed=True).wait_for()
            assert first.get_by_role("button", name="This one helped", pressed=True).count() == 0
            hit = first.get_attribute("data-id")
        browser.close()
    with PredictiveAssociativeIndex.open(folder, embedder=embed) as index:
        assert [one.used for one in index.feedbacks()] == [{hit: -1.0}]
