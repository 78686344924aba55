"""What the explorer costs in a browser, beyond the library: first view, answers, the map, frames while dragging.

    python -m benchmarks.performance.explore [--memories 100000] [--rounds 7]

Needs the extra explore, playwright and the Chromium of the system. Vectors of 384-d around 200 centres, texts, sessions
of 50. An answer is timed in the page, from the click to the hits on the screen; "beyond" is that without the seconds
that the library says it took for search and recall.
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
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import report
from pam_retriever import FitConfig, PredictiveAssociativeIndex

DIM, SESSION, CENTRES = 384, 50, 200
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def fitted(folder: Path, memories: int) -> None:
    """An index with texts, metadata and sessions, fitted for one pass: times do not depend on what it learnt."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((CENTRES, DIM), np.float32)
    with PredictiveAssociativeIndex.open(folder, dim=DIM) as index:
        for start in range(0, memories, 10_000):
            rows = range(start, min(start + 10_000, memories))
            vectors = centres[random.integers(0, CENTRES, len(rows))]
            vectors = vectors + 0.5 * random.standard_normal(vectors.shape, np.float32)
            metadatas = [{"session": row // SESSION, "kind": f"kind {row % 7}"} for row in rows]
            index.add(
                vectors, [str(row) for row in rows], [f"What was said at moment {row}" for row in rows], metadatas
            )
        index.fit(group_by="session", window=2, config=FitConfig(hidden=32, passes=1), progress=False)


def measure(address: str, memories: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each view, a figure a round; the first round, which fills caches, is there under a name of its own."""
    from playwright.sync_api import sync_playwright

    taken: dict[str, list[float]] = {}

    def note(name: str, seconds: float) -> None:
        taken.setdefault(name, []).append(seconds)

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for turn in range(rounds):
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            page = context.new_page()
            page.set_default_timeout(120_000)
            began = time.perf_counter()
            page.goto(address)
            page.wait_for_selector("#question")
            note("first view" if turn else "first view, first of all", time.perf_counter() - began)
            page.goto(f"{address}#ask?id={(7919 * turn + 11) % memories}")
            page.wait_for_selector("#answer[data-drawn] .hit")
            said = json.loads(page.get_attribute("#answer", "data-seconds"))
            drawn = float(page.get_attribute("#answer", "data-drawn"))
            note("answer" if turn else "answer, first of all", drawn)
            note("beyond the library" if turn else "beyond, first of all", drawn - said["search"] - said["recall"])
            began = time.perf_counter()
            page.goto(f"{address}#map")
            page.wait_for_selector("canvas[data-drawn]")
            note("map" if turn else "map, first of all", time.perf_counter() - began)
            box = page.locator("canvas").bounding_box()
            page.mouse.move(box["x"] + 300, box["y"] + 300)
            page.mouse.down()
            for step in range(1, 11):
                page.mouse.move(box["x"] + 300 + 9 * step, box["y"] + 300 + 5 * step)
                page.evaluate("() => new Promise(requestAnimationFrame)")
                note("frame", float(page.get_attribute("canvas", "data-frame")) / 1000)
            page.mouse.up()
            context.close()
        browser.close()
    return taken


def main() -> None:
    """Measures, prints the table and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "index"
        fitted(folder, given.memories)
        began = time.perf_counter()
        command = [sys.executable, "-m", "pam_retriever.apps.cli", "explore", str(folder), "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            address = server.stdout.readline().strip() if server.stdout else ""
            listening = time.perf_counter() - began
            try:
                taken = measure(address, given.memories, given.rounds)
            finally:
                server.terminate()
    taken["until it listens"] = [listening]
    for name, seconds in taken.items():
        print(f"{name:28}{1000 * median(seconds):10.0f} ms   slowest {1000 * max(seconds):8.0f} ms")
    report.write("performance/explore", {"memories": given.memories, "seconds": taken})


if __name__ == "__main__":
    main()
