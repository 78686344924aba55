"""Repositories that git reads with difficulty: broken commits, very long paths, a foreign owner, a partial clone."""

from __future__ import annotations

import pytest
from test_code_memory import contents, fresh, update

from benchmarks.code.histories import History, git
from pam_retriever.apps.code.repository import Repository, RepositoryUnreadable


@pytest.fixture
def history(tmp_path) -> History:
    made = History(tmp_path / "repository")
    made.commit("Begin", {"a.py": "a\n"})
    made.write()
    return made


def test_a_commit_without_a_time_is_learnt_without_one(history):
    blob = git(history.folder, "hash-object", "-w", "--stdin", given=b"b\n").strip()
    tree = git(history.folder, "mktree", given=f"100644 blob {blob}\ta.py\n".encode()).strip()
    parent = git(history.folder, "rev-parse", "HEAD").strip()
    lines = [f"tree {tree}", f"parent {parent}", "author A <a> 1 +0000"]
    text = "\n".join([*lines, "committer nobody", "", "Written by a strange tool"])
    options = ("-t", "commit", "-w", "--literally", "--stdin")
    broken = git(history.folder, "hash-object", *options, given=text.encode()).strip()
    index = fresh()
    update(index, history.folder, broken)
    assert contents(index)["commits"][broken] == ("Written by a strange tool", {"a.py"}, None)


def test_a_file_whose_path_is_too_long_for_an_id_is_left_out(history):
    blob = git(history.folder, "hash-object", "-w", "--stdin", given=b"b\n").strip()
    long = "/".join(["d" * 200] * 30)
    git(history.folder, "update-index", "--add", "--cacheinfo", f"100644,{blob},{long}")
    git(history.folder, "commit", "-q", "-m", "A long path")
    index = fresh()
    update(index, history.folder)
    assert set(contents(index)["files"]) == {"a.py"}


def test_a_repository_of_another_user_names_the_remedy_of_git(history, tmp_path, monkeypatch):
    remedy = "git config --global --add safe.directory /srv/code"
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    lines = ("fatal: detected dubious ownership in repository at '/srv/code'", "To add an exception, call:", "", remedy)
    program.write_text("#!/bin/sh\n" + "".join(f'echo "{line}" >&2\n' for line in lines) + "exit 128\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    with pytest.raises(RepositoryUnreadable, match=f"dubious ownership.* If you trust it: {remedy}$"):
        Repository(history.folder)


def test_a_partial_clone_names_its_remedy(history, tmp_path):
    clone = tmp_path / "clone"
    git(history.folder, "config", "uploadpack.allowFilter", "true")
    source = f"file://{history.folder}"
    git(tmp_path, "clone", "--quiet", "--no-checkout", "--filter=blob:none", source, str(clone))
    index = fresh()
    with pytest.raises(RepositoryUnreadable, match=r"partial clone.*git fetch --refetch --no-filter"):
        update(index, clone)
    git(clone, "fetch", "--quiet", "--refetch", "--no-filter")
    update(index, clone)
    assert set(contents(index)["files"]) == {"a.py"}


def test_a_repository_that_lost_a_file_names_the_file(history):
    blob = git(history.folder, "rev-parse", "HEAD:a.py").strip()
    (history.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(RepositoryUnreadable, match=r"contents of a\.py are missing.*git fsck"):
        update(fresh(), history.folder)
