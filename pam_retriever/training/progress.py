"""A progress bar of training steps."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from pam_retriever.store.bars import hidden

if TYPE_CHECKING:
    from typing_extensions import Self


class ProgressBar:
    """A bar of training steps, with the loss of the current pass.

    Args:
        title: of the bar.
        steps: expected number.
        done: number of steps before an interruption.
        show: None shows the bar on a terminal and in a notebook.
    """

    def __init__(self, title: str, steps: int, done: int, show: bool | None) -> None:
        self._bar: Any = tqdm(total=steps, initial=done, desc=title, unit="step", disable=hidden(show))

    def step(self) -> None:
        """Counts one step."""
        self._bar.update()

    def loss(self, value: float) -> None:
        """Shows the mean loss of the pass so far."""
        self._bar.set_postfix(loss=f"{value:.4f}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
