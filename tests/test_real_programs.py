"""The benchmarks of real data run from their command lines, on small made-up data."""

from __future__ import annotations

import gzip
import json
import tempfile

import benchmark_data
import numpy as np
import pytest
from explore_samples import in_browser

from benchmarks.code.histories import History, grow
from benchmarks.performance import explore_views
from benchmarks.priors import fit_newness, fit_next_priors, fit_priors
from benchmarks.real import data, documentation, documents, locomo
from benchmarks.real.pages import read
from pam_retriever.retrieval.mixture.mixture import Priors

pytestmark = pytest.mark.slow

PROGRAMS = [
    "real.adapters",
    "real.code_memory --tasks code-flask --most 5",
    "real.documents --tune",
    "real.documents --cues",
    "real.identifiers --tasks code-flask toollens --tune judge --most 5",
    "real.first_requests --data locomo hotpot code-flask",
    "real.other_requests --data code-flask",
    "real.lexical --texts 200",
    "real.locomo",
    "real.locomo_feedback --dialogues 1",
    "real.typing_errors --most 1",
    "real.unnamed",
    "real.use --tasks toollens --tune weights --most 5",
    "real.use --tasks code-flask --protocols curve --tune weights --most 5 --without-fit",
    "real.use --tasks code-flask --protocols added --tune weights --without-fit",
    "real.use_ablation --tasks code-flask",
    "real.times",
    "real.next",
    "real.sequence --model GRU4Rec --epochs=1",
    "real.ratings",
    "real.wikispeedia",
    "scaling.drift --packages numpy --queries 5 --first 10",
    "scaling.real_texts --packages numpy --count 1650 --queries 5",
    "priors.fit_balance --tasks code-flask locomo",
    "priors.fit_nearness --data code-flask locomo hotpot",
    "priors.fit_times",
]


@pytest.fixture
def made_up_data(tmp_path, monkeypatch):
    monkeypatch.setenv("PAM_DATA_DIR", str(benchmark_data.write(tmp_path / "data")))
    for program in (data, documents):
        monkeypatch.setattr(program, "load_embedder", lambda _: benchmark_data.Embedder())
    monkeypatch.setattr(locomo, "DEPTH", 20)  # a dialogue has 30 turns
    monkeypatch.setattr(Priors, "read", vars(Priors)["read"])  # a program replaces it
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # caches of embeddings are there


@pytest.mark.usefixtures("made_up_data")
@pytest.mark.parametrize("command", PROGRAMS)
def test_a_program_calls_the_library_of_today(ran, command):
    module, *arguments = command.split()
    assert ran(f"benchmarks.{module}", *arguments)


@pytest.mark.usefixtures("made_up_data")
def test_a_repository_is_a_task_of_use(ran, tmp_path):
    project = History(tmp_path / "project")
    grow(project, 60, np.random.default_rng(0), components=5)
    project.write()
    (found,) = ran("benchmarks.real.use", "--repository", str(project.folder), "--without-fit").values()
    run = found["tasks"]["code-own"]["last 3000"]
    assert run["experiences"] > 3 * run["tests"] > 0
    assert run["all tests"]["mixture, priors alone"]["R@5"]["mean"] > run["all tests"]["popularity"]["R@5"]["mean"]


@pytest.mark.usefixtures("made_up_data")
def test_manual_pages_are_asked_by_what_they_do(ran, tmp_path):
    """Pages of which each names two others; those to see also are in no text."""
    folder = tmp_path / "pages" / "man2"
    folder.mkdir(parents=True)
    for at in range(12):
        others = [(at + step) % 12 for step in (1, 2)]
        also = ",\n".join(f".BR call{other} (2)" for other in others)
        body = f".SH DESCRIPTION\nIt does\\-thing {at}, as\n.BR call{others[0]} (2)\n does."
        page = f".TH X\n.SH NAME\ncall{at} \\- purpose number{at}\n{body}\n.SH SEE ALSO\n{also}\n"
        (folder / f"call{at}.2.gz").write_bytes(gzip.compress(page.encode()))
    (folder / "alias.2.gz").write_bytes(gzip.compress(b".so man2/call1.2\n"))
    (found,) = ran("benchmarks.real.pages", str(tmp_path)).values()
    assert found["pages"] == found["questions"] == 12
    assert found["library"]["page first"]["mean"] > 0.5
    first = read(folder / "call3.2.gz")
    assert (first.id, first.purpose, first.also) == ("call3(2)", "purpose number3", ["call4(2)", "call5(2)"])
    assert "does-thing 3" in first.text
    assert "call4 (2)" in first.text
    assert "call5" not in first.text


@pytest.mark.usefixtures("made_up_data")
def test_the_pages_of_a_documentation_are_a_task_of_use(ran, tmp_path):
    """Each of 60 pages has a section that links to one of 15 pages, and navigation that links to all."""
    pages, long = tmp_path / "html", "It is about this and that, as a text of more than eighty characters is about it. "
    pages.mkdir()
    everything = "".join(f'<a href="page{at}.html">page {at}</a>' for at in range(60))
    for at in range(60):
        around = f'<div class="related" role="navigation"><h3>Navigation</h3><div>{everything}</div></div>'
        link = f'<a href="page{at % 15}.html#part">see</a> <a href="https://example.org/page9.html">elsewhere</a>'
        body = f"<h1>Page number {at}¶</h1><p>First<br>words.<h2>Subject {at % 15}.</h2><p>{long}{link}"
        (pages / f"page{at}.html").write_text(f"<head><title>No</title></head>{around}{body}", encoding="utf-8")
    texts, requests = documentation.read(pages)
    assert texts["page5.html"].startswith("Page number 5. First words. Subject 5.. It is about this")
    assert all(used == [f"page{text.split('.')[0].removeprefix('Subject ')}.html"] for text, used in requests)
    assert len(requests) == 45  # fifteen pages link only to themselves
    ran("benchmarks.real.documentation", str(pages), str(tmp_path / "use" / "made-up"))
    (found,) = ran("benchmarks.real.use", str(tmp_path / "use"), "--tasks", "made-up", "--without-fit").values()
    assert found["tasks"]["made-up"]["last 3000"]["experiences"] == 36


@pytest.mark.usefixtures("made_up_data")
def test_the_priors_are_fitted_and_written(ran, monkeypatch, tmp_path):
    monkeypatch.setattr(fit_priors, "TASKS", ("toollens", "code-flask"))
    for name in ("PRIORS", "WITHOUT"):  # the shipped files stay as they are
        monkeypatch.setattr(fit_priors, name, tmp_path / f"{name}.json")
        monkeypatch.setattr(fit_newness, name, tmp_path / f"{name}.json")
    (found,) = ran("benchmarks.priors.fit_priors").values()
    assert {row["data"] for row in found["losses"]} >= {"toollens", "code-flask"}
    written = Priors.read(tmp_path / "PRIORS.json")
    assert written.at(("similarity", "words"), 100, 0.0)[0].all()
    assert json.loads((tmp_path / "WITHOUT.json").read_text())["without"].keys() == {"toollens", "code-flask", "locomo"}
    (again,) = ran("benchmarks.priors.fit_priors", "--again").values()
    assert again["weight"] == json.loads((tmp_path / "PRIORS.json").read_text())["weights"]["question"]["asked_again"]
    (new,) = ran("benchmarks.priors.fit_newness").values()
    assert new["weight"] == json.loads((tmp_path / "PRIORS.json").read_text())["weights"]["question"]["newness"]
    assert any(new["weight"])
    assert {row["data"] for row in new["losses"]} >= {"toollens", "code-flask"}


@pytest.mark.usefixtures("made_up_data")
def test_the_prior_of_the_next_step_is_fitted_and_written(ran, monkeypatch, tmp_path):
    monkeypatch.setattr(fit_next_priors, "REPOSITORIES", ("code-flask",))
    monkeypatch.setattr(fit_next_priors, "STEPS", 60)  # so few that some steps lead to new memories
    ran("benchmarks.priors.fit_next_priors", "--to", str(tmp_path / "prior.json"))
    written = json.loads((tmp_path / "prior.json").read_text())
    assert written["data"] == ["wikispeedia", "code-flask"]
    assert all(sum(parts.values()) == pytest.approx(1, abs=0.02) for parts in written["parts"].values())


@pytest.mark.usefixtures("made_up_data")
@in_browser
def test_every_view_is_opened_once(ran, monkeypatch):
    pytest.importorskip("playwright.sync_api")
    monkeypatch.setattr(explore_views, "WIDTHS", (390,))
    monkeypatch.setattr(explore_views, "SCHEMES", ("light",))
    (found,) = ran("benchmarks.performance.explore_views").values()
    for name in ("LoCoMo", "flask"):
        assert found["data"][name]["looked at"] >= 10
        assert found["data"][name]["faults"] == []
