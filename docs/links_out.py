"""A hook of MkDocs: links from a page to files outside of docs/, which the site does not have.

In the repository such links work as they are. On the site they lead to the repository, whose address is the entry
``Repository`` of ``[project.urls]`` in pyproject.toml. Without one, the text of the link stays and the path stands
beside it. A path that leads nowhere is an error.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.exceptions import PluginError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The configuration with the address of the repository."""
    project = tomllib.loads((Path(config.docs_dir).parent / "pyproject.toml").read_text())["project"]
    config.repo_url = config.repo_url or project.get("urls", {}).get("Repository") or None
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """The page with each link that leaves docs/ replaced."""
    docs = Path(config.docs_dir).resolve()
    here = (docs / page.file.src_uri).parent

    def replaced(link: re.Match[str]) -> str:
        target = (here / link[2]).resolve()
        if target.is_relative_to(docs):
            return link[0]  # MkDocs checks these
        if not target.exists():
            raise PluginError(f"{page.file.src_uri} links to {link[2]}, which does not exist")
        path = target.relative_to(docs.parent).as_posix()
        if config.repo_url:
            return f"[{link[1]}]({config.repo_url.rstrip('/')}/blob/main/{path}{link[3] or ''})"
        return f"{link[1]} (`{path}`)"

    return LINK.sub(replaced, markdown)
