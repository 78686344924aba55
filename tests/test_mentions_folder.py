"""Reading a folder of documents, heading by heading."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pam_retriever.errors import InvalidInput, MissingExtra
from pam_retriever.mentions.folder import LONGEST_PASSAGE, passages_of, read_folder, removed_files
from pam_retriever.mentions.names import MOST_NAMES

MARKDOWN = """---
title: "Trees"
tags: [a]
---
before

# Oak #

An oak; see [elm](elm.md).

```
# no heading
```

## Leaves

green

Oak
===

again
"""
HTML = """<html><head><title>Trees</title><style>p {}</style></head><body><p>before</p>
<h1>O<b>ak</b></h1><p>An oak; see <a href="elm.html">the <i>elm</i></a>.</p><script>no()</script><ul><li>one<li>two</ul>
<h2>Leaves</h2>green<h1>Oak</h1><p>again</body></html>"""
RST = """before

Oak
===

An oak; see `elm <elm.rst>`_.

Leaves
------

green

.. include:: /etc/passwd

Oak
===

again
"""


@pytest.mark.parametrize(("name", "text"), [("t.md", MARKDOWN), ("t.html", HTML), ("t.rst", RST)])
def test_a_document_is_read_heading_by_heading(name: str, text: str) -> None:
    passages = passages_of(name, text)
    assert [one.metadata["heading"] for one in passages] == [None, "Oak", "Leaves", "Oak"]
    assert [one.id for one in passages] == [name, f"{name}#oak", f"{name}#leaves", f"{name}#oak~2"]
    assert [one.metadata["order"] for one in passages] == [0, 1, 2, 3]
    assert {one.metadata["title"] for one in passages} == {"Oak" if name == "t.rst" else "Trees"}
    assert {one.metadata["source"] for one in passages} == {name}
    assert passages[0].text == "before"
    assert "An oak" in passages[1].text and "elm." in passages[1].text and "green" not in passages[1].text
    assert passages[2].text.endswith("green") and "Leaves" in passages[2].text
    assert not any(word in one.text for one in passages for word in ("no()", "root:", "tags", "p {}"))


def test_headings_in_code_and_in_lists_are_none() -> None:
    passages = passages_of("a.md", "- # in a list\n\n> # in a quote\n\n    # in code\n")
    assert [one.metadata["heading"] for one in passages] == [None]


@pytest.mark.parametrize("name", ["a.md", "a.html", "a.rst", "a.txt"])
@pytest.mark.parametrize("text", ["", " \n", "# \n", "=\n=", "<", "\x00", "#" * 10_000, "[" * 10_000, "<div>" * 10_000])
def test_odd_files_are_read(name: str, text: str) -> None:
    ids = [one.id for one in passages_of(name, text)]
    assert len(set(ids)) == len(ids)


LONG = {
    "a.md": ("# Oak\n\n{}\n\n## Elm\n\nshort\n", "# Oak"),
    "a.html": ("<h1>Oak</h1><p>{}</p><h2>Elm</h2><p>short</p>", "Oak"),
    "a.rst": ("Oak\n===\n\n{}\n\nElm\n---\n\nshort\n", "Oak"),
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_section_is_cut_at_sentences_and_each_part_has_the_heading(name: str) -> None:
    document, head = LONG[name]
    sentences = [f"Sentence {at} says something of the tree." for at in range(70)]
    *parts, last = passages_of(name, document.format(" ".join(sentences)))
    assert [one.id for one in parts] == [f"{name}#oak", f"{name}#oak~2", f"{name}#oak~3"]
    assert last.id == f"{name}#elm"
    assert [one.metadata["order"] for one in [*parts, last]] == [0, 1, 2, 3]
    bodies = [one.text.removeprefix(f"{head}\n\n") for one in parts]
    assert all(one.text != body and len(body) <= LONGEST_PASSAGE for one, body in zip(parts, bodies, strict=True))
    assert " ".join(bodies).split() == " ".join(sentences).split()
    assert all(body.startswith("Sentence") and body.endswith("tree.") for body in bodies)


def test_a_section_of_the_longest_length_stays_whole() -> None:
    (whole,) = passages_of("a.txt", "x" * LONGEST_PASSAGE)
    assert len(whole.text) == LONGEST_PASSAGE
    assert [len(one.text) for one in passages_of("a.txt", "x" * (LONGEST_PASSAGE + 1))] == [LONGEST_PASSAGE, 1]


def test_a_long_line_is_cut_in_linear_time() -> None:
    text = "words " * 200_000  # in quadratic time this would take minutes
    found = passages_of("a.txt", text)
    assert " ".join(one.text for one in found).split() == text.split()
    assert max(len(one.text) for one in found) <= LONGEST_PASSAGE
    without_spaces = [one.text for one in passages_of("b.txt", "吾輩は猫である。" * 20_000)]
    assert "".join(without_spaces) == "吾輩は猫である。" * 20_000


def test_a_long_text_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "semantic_text_splitter", None)
    assert len(passages_of("a.txt", "short")) == 1
    with pytest.raises(MissingExtra, match=r"semantic-text-splitter.*pam-retriever\[folders\]"):
        passages_of("a.txt", "long " * LONGEST_PASSAGE)


def test_lines_that_end_as_on_an_old_system_keep_the_headings() -> None:
    first, second = passages_of("a.md", "one\rtwo\n# Heading\rthree")
    assert (first.text, second.id, second.text) == ("one\ntwo", "a.md#heading", "# Heading\nthree")


def test_ids_do_not_collide() -> None:
    passages = passages_of("a#b.md", "# A\n\n# a~2\n\n# A\n\n# a 2\n\n# !\n\n# ?\n")
    ids = [one.id for one in passages] + [one.id for one in passages_of("a.md", "# b.md#A\n\nx")]
    assert len(set(ids)) == len(ids) == 7


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("a.md", "sub/b.txt", "c.pdf", ".git/d.md"):
        (tmp_path / name).write_text(f"# {name}\n\ntext")
    known = {one.source: one.digest for one in read_folder(tmp_path)}
    assert set(known) == {"a.md", "sub/b.txt"}
    assert list(read_folder(tmp_path, known)) == [] and removed_files(tmp_path, known) == []
    (tmp_path / "a.md").write_text("# a.md\n\nother\n\n# new\n\ntext")
    (tmp_path / "sub/b.txt").unlink()
    changed = list(read_folder(tmp_path, known))
    assert [[one.id for one in file.passages] for file in changed] == [["a.md#a-md", "a.md#new"]]
    assert removed_files(tmp_path, known) == ["sub/b.txt"]


def test_links_out_of_the_folder_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside.md").write_text("secret")
    (tmp_path / "inside" / "link.md").symlink_to(tmp_path / "outside.md")
    assert list(read_folder(tmp_path / "inside")) == []


def test_what_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="is no folder"):
        next(read_folder(tmp_path / "none"))
    (tmp_path / "a.md").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="no UTF-8"):
        next(read_folder(tmp_path))
    monkeypatch.setattr("pam_retriever.mentions.folder.MOST_BYTES", 1)
    with pytest.raises(InvalidInput, match="has 2 bytes"):
        next(read_folder(tmp_path))


@pytest.mark.parametrize(
    ("front", "title", "aliases"),
    [
        ("title: Mara Holt\naliases: [Mara, Chef]", "Mara Holt", ["Mara", "Chef"]),
        ("title: 'It''s \u2013 late'\naliases:\n  - one\n  - 2", "It's \u2013 late", ["one", "2"]),
        ('title: "1984 \\u2013 a book"\naliases: Orwell', "1984 \u2013 a book", ["Orwell"]),
        ("title: 1984", "1984", None),
        ("title: 2024-13-45", "2024-13-45", None),
        ("title: Ulysses: a novel\naliases: [x]", "Ulysses: a novel", None),  # no YAML
        ("title: [a]\naliases: {a: b}", "file", None),
        ("- a\n- b", "file", None),
        ("", "file", None),
        ("&a [*a]", "file", None),
        ("[" * 20_000, "file", None),
        ("aliases: [" + ", ".join(map(str, range(1000))) + "]", "file", [str(n) for n in range(MOST_NAMES)]),
    ],
)
def test_names_in_the_front_matter(front: str, title: str, aliases: list[str] | None) -> None:
    [passage] = passages_of("notes/file.md", f"---\n{front}\n---\nShe trained as a cook.")
    assert passage.text == "She trained as a cook."
    assert passage.metadata["title"] == title
    assert passage.metadata.get("aliases") == aliases
