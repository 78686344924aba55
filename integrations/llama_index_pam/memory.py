"""A memory block for LlamaIndex: recalls messages that left the window of a chat."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.settings import Settings
from llama_index.core.utils import get_tokenizer

from pam_retriever import PredictiveAssociativeIndex

ALONE = "messages without a session"  # the session of messages without one
SESSION = "session_id"  # the keyword with which LlamaIndex passes the session of a message to a block


class PAMMemoryBlock(BaseMemoryBlock[str]):
    """Stores the messages that no longer fit into the window, and recalls them, also by their neighbours.

    Messages of one session are linked in their order. A recall uses vectors, words, neighbours, and feedback
    (``index.feedback``). Use it like any other block:
    ``Memory.from_defaults(session_id="s", memory_blocks=[PAMMemoryBlock(index=index)])``.

    Attributes:
        name: the name of the block in the memory.
        index: the index of the messages; ``PredictiveAssociativeIndex.open(folder, dim=...)`` makes it durable. Use
            ``index.tenant(user)`` for each user.
        embed_model: makes the vectors; ``Settings.embed_model`` by default.
        similarity_top_k: number of messages to recall.
        retrieval_context_window: number of last messages that form the question.
        across_sessions: recall messages of all sessions in the index; False recalls only those of the current session.
    """

    model_config = ConfigDict(extra="forbid")  # pydantic would ignore a misspelt setting

    name: str = Field(default="RecalledMessages", description="The name of the memory block.")
    index: PredictiveAssociativeIndex = Field(description="Where messages are stored.", exclude=True)
    embed_model: BaseEmbedding = Field(default_factory=lambda: Settings.embed_model, description="Makes the vectors.")
    similarity_top_k: int = Field(default=5, ge=1, description="How many messages to recall.")
    retrieval_context_window: int = Field(default=1, ge=1, description="How many of the last messages are asked.")
    across_sessions: bool = Field(default=False, description="Whether to recall messages of other sessions.")

    async def _aget(
        self,
        messages: list[ChatMessage] | None = None,
        session_id: str | None = None,
        **block_kwargs: Any,  # noqa: ARG002 - for other blocks
    ) -> str:
        """Returns the messages that are relevant to the last messages, the best first, one per line."""
        text = " ".join(filter(None, map(_text, (messages or [])[-self.retrieval_context_window :])))
        if not text:
            return ""
        vector = await self.embed_model.aget_query_embedding(text)
        where = None if self.across_sessions else _of_session(session_id)
        hits = await asyncio.to_thread(self.index.recall, vector, self.similarity_top_k, text=text, where=where)
        # the index may hold other memories than messages
        return "\n".join(f"{hit.metadata.get('role', 'memory')}: {hit.text}" for hit in hits if hit.text)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Stores messages as the next steps of their session."""
        texts = [(message, text) for message in messages if (text := _text(message))]
        if not texts:
            return
        vectors = await self.embed_model.aget_text_embedding_batch([text for _, text in texts])
        await asyncio.to_thread(self._store, texts, vectors)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Removes the least relevant lines, at the end, until this many tokens are removed; None if no line is left."""
        tokenize, lines, gone = get_tokenizer(), content.split("\n"), 0
        while lines and gone < tokens_to_truncate:
            gone += len(tokenize(lines.pop()))
        return "\n".join(lines) or None

    def _store(self, texts: Sequence[tuple[ChatMessage, str]], vectors: Sequence[Sequence[float]]) -> None:
        for (message, text), vector in zip(texts, vectors, strict=True):
            session = message.additional_kwargs.get(SESSION) or ALONE
            self.index.append(session, vector, text, metadata={"session": session, "role": message.role.value})


def _of_session(session_id: str | None) -> dict[str, Any]:
    """Returns the filter for a session. Without one: messages without a session, and memories that are no messages."""
    if session_id:
        return {"session": session_id}
    return {"$or": [{"session": ALONE}, {"session": {"$exists": False}}]}


def _text(message: ChatMessage) -> str:
    """Returns the text of a message, on one line."""
    words = (block.text for block in message.blocks if isinstance(block, TextBlock))
    return " ".join(" ".join(words).split())
