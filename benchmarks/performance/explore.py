"""The time of the explorer in a browser, without the library's own time: first view, answers, map, frames of a drag.

    python -m benchmarks.performance.explore [--memories 100000] [--dim 384] [--rounds 7]
    python -m benchmarks.performance.explore --memories 1000000 --dim 32 --rounds 4 --sessions 200 --build 8

The second command writes explore_1000000.json, for the default index of a million memories, which is an HNSW. That
index is fitted on 200 sessions, and its graphs are built with little effort; the times of the views depend on neither.

Needs the extra explore, playwright and the Chromium of the system. The data are vectors around 200 centres, texts,
times, and sessions of 50. The page measures an answer from the click to the hits on the screen; "beyond" subtracts the
seconds that the library reports for search and recall. "processor" is the server's processor time for a view.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import parse_qs, quote

import numpy as np

from benchmarks import report
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.ann import faiss

SESSION, CENTRES, STANDARD = 50, 200, 100_000
START = datetime(2020, 1, 1, tzinfo=timezone.utc)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def filled(folder: Path, memories: int, dim: int, backend: str, fit: bool, sessions: int | None = None) -> None:
    """Fills an index with texts, metadata and sessions. Fits one pass, because times do not depend on the training."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((CENTRES, dim), np.float32)
    with PredictiveAssociativeIndex.open(folder, dim, backend) as index:
        for start in range(0, memories, 10_000):
            rows = range(start, min(start + 10_000, memories))
            vectors = centres[random.integers(0, CENTRES, len(rows))]
            vectors = vectors + 0.5 * random.standard_normal(vectors.shape, np.float32)
            metadatas = [{"session": row // SESSION, "kind": f"kind {row % 7}"} for row in rows]
            ids, texts = [str(row) for row in rows], [f"What was said at moment {row}" for row in rows]
            index.add(vectors, ids, texts, metadatas, [START + timedelta(minutes=row) for row in rows])
            if not fit:
                index.observe_many([ids[at : at + SESSION] for at in range(0, len(ids), SESSION)])
        if fit and sessions is not None:
            firsts = range(0, memories, memories // sessions)
            experienced = [[str(row) for row in range(first, first + SESSION)] for first in firsts]
            index.fit(experienced, window=2, config=FitConfig(hidden=32, passes=1), progress=False)
        elif fit:
            index.fit(group_by="session", window=2, config=FitConfig(hidden=32, passes=1), progress=False)


class Timings:
    """Seconds of each view, one value per round. The first round fills caches, so it is recorded separately.

    Args:
        process: the server.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self.seconds: dict[str, list[float]] = {}
        self.processor: dict[str, list[float]] = {}
        self.first = True

    def note(self, name: str, seconds: float) -> None:
        """Records the seconds of one view."""
        self.seconds.setdefault(f"{name}, first of all" if self.first else name, []).append(seconds)

    @contextmanager
    def view(self, name: str, timed: bool = True) -> Iterator[None]:
        """Measures the clock time of a view, and the server's processor time."""
        began, used = time.perf_counter(), self._used()
        yield
        if timed:
            self.note(name, time.perf_counter() - began)
        named = f"{name}, first of all" if self.first else name
        self.processor.setdefault(named, []).append(self._used() - used)

    def _used(self) -> float:
        """Returns the processor seconds of all threads."""
        fields = Path(f"/proc/{self._process}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> dict[str, int]:
        """Returns the memory of the server in bytes: its own, and with the pages of mapped files."""
        lines = Path(f"/proc/{self._process}/status").read_text().splitlines()
        found = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss")}
        return {"own": found["RssAnon"], "with files": sum(found.values())}


def measure(address: str, memories: int, rounds: int, timings: Timings) -> str:
    """Opens every view in a browser; returns the figures of the map that the page reports."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        about = listed = ""
        for turn in range(rounds):
            timings.first = not turn
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            page = context.new_page()
            page.set_default_timeout(120_000)
            with timings.view("first view"):
                page.goto(address)
                page.wait_for_selector("#question")
            page.wait_for_selector(".when rect")  # the time line is drawn last
            id = (7919 * turn + 11) % memories
            with timings.view("answer", timed=False):
                page.goto(f"{address}#ask?id={id}")
                page.wait_for_selector("#answer[data-drawn] .hit")
            said = json.loads(page.get_attribute("#answer", "data-seconds"))
            drawn = float(page.get_attribute("#answer", "data-drawn"))
            timings.note("answer", drawn)
            timings.note("beyond the library", drawn - said["search"] - said["recall"])
            for name, fragment, selector in (
                ("map", "map", "canvas[data-drawn]"),
                ("neighbourhood, 3 hops", f"map?id={id}&hops=3", "svg .node"),
                ("sessions", "sessions", "main .list li"),
                ("a session", "", ".step[aria-current]"),
                ("search for a session", "", "main .list li"),
                ("health", "health", ".facts"),
            ):
                if name == "a session":
                    fragment = (page.locator("main .list a").last.get_attribute("href") or "").removeprefix("#")
                    listed = parse_qs(fragment.partition("?")[2])["id"][0]
                elif name == "search for a session":
                    fragment = f"sessions?q={quote(listed)}"
                with timings.view(name):
                    page.goto(f"{address}#{fragment}")
                    page.wait_for_selector(selector)
                if name == "map":
                    about = page.locator(".map .row .small").inner_text()
                    drag(page, timings)
            context.close()
        browser.close()
    return about


def drag(page: Any, timings: Timings) -> None:
    """Drags the map, and records the seconds of each frame."""
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 300)
    page.mouse.down()
    for step in range(1, 11):
        page.mouse.move(box["x"] + 300 + 9 * step, box["y"] + 300 + 5 * step)
        page.evaluate("() => new Promise(requestAnimationFrame)")
        timings.note("frame", float(page.get_attribute("canvas", "data-frame")) / 1000)
    page.mouse.up()


def main() -> None:
    """Measures, prints the table and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=STANDARD)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--backend", default="faiss")
    parser.add_argument("--unfitted", action="store_true", help="store the sessions without training")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sessions", type=int, help="number of sessions to fit on (default: all)")
    parser.add_argument("--build", type=int, default=faiss.HNSW_BUILD, help="efConstruction of the HNSW graphs")
    parser.add_argument("--folder", type=Path, help="folder of the index; an existing index is used again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch) / "index"
        faiss.HNSW_BUILD = given.build
        if not folder.exists():
            filled(folder, given.memories, given.dim, given.backend, not given.unfitted, given.sessions)
        began = time.perf_counter()
        command = [sys.executable, "-m", "pam_retriever.apps.cli", "explore", str(folder), "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            address = server.stdout.readline().strip() if server.stdout else ""
            listening, timings = time.perf_counter() - began, Timings(server.pid)
            used = {"until it listens": timings.memory()}
            try:
                about = measure(address, given.memories, given.rounds, timings)
                used["after all views"] = timings.memory()
            finally:
                server.terminate()
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    timings.seconds["until it listens"] = [listening]
    for name, seconds in timings.seconds.items():
        processor = f"processor {1000 * median(timings.processor[name]):8.0f} ms" if name in timings.processor else ""
        print(f"{name:36}{1000 * median(seconds):10.0f} ms   slowest {1000 * max(seconds):8.0f} ms   {processor}")
    print(about, used, f"folder {size:,} bytes")
    figures = {
        "seconds": timings.seconds,
        "processor": timings.processor,
        "bytes": {**used, "folder": size},
        "map": about,
    }
    name = "explore" if given.memories == STANDARD else f"explore_{given.memories}"
    setting = {name: getattr(given, name) for name in ("memories", "dim", "backend", "unfitted", "sessions", "build")}
    report.write(f"performance/{name}", {**setting, **figures})


if __name__ == "__main__":
    main()
