"""A tool selector that improves with use: feedback names the tool that served a request, and similar requests find it.

Requests and descriptions of tools use different words, so that similarity alone often picks the wrong tool. After
each request, ``feedback`` stores the tool that served it. The next request uses this at once, without training.

Run it with ``python examples/tool_memory.py``; it needs the extra ``text``.
"""

from __future__ import annotations

from pam_retriever import PredictiveAssociativeIndex

TOOLS = {
    "calendar": "Create, move and delete events, and find free slots.",
    "ledger": "Post journal entries and look up the balance of an account.",
    "tickets": "Open, assign and close issues of the support desk.",
    "roster": "Show and change who is on duty, and record absences.",
    "courier": "Book the pick-up of a parcel and follow it.",
    "directory": "Look up names, rooms and telephone extensions of staff.",
    "deploy": "Release a version to a stage, or return to the one before.",
    "metrics": "Query time series of servers and draw them.",
}
USED = [  # requests, each with the tool that served it
    ("My stomach hurts, I will stay in bed today.", "roster"),
    ("Ben takes my night shift on Friday.", "roster"),
    ("The flu has caught me, do not count on me.", "roster"),
    ("Did the customer in Bern already pay us?", "ledger"),
    ("How much did we spend on coffee last year?", "ledger"),
    ("The invoice of the printer was paid twice.", "ledger"),
    ("The page has been broken since noon, bring back yesterday's.", "deploy"),
    ("Let the users see the new search.", "deploy"),
    ("Undo what we shipped this morning.", "deploy"),
    ("Why is the shop so slow tonight?", "metrics"),
    ("Is the disk of the database nearly full?", "metrics"),
    ("Has the memory of the mail server grown since May?", "metrics"),
    ("Where are the samples that we sent to Oslo?", "courier"),
    ("Somebody should fetch the boxes from the hall.", "courier"),
    ("A customer cannot log in and is angry.", "tickets"),
    ("The user's printing problem is solved.", "tickets"),
    ("When could the four of us talk?", "calendar"),
    ("I would rather see Ms Meier on Tuesday.", "calendar"),
    ("How do I reach the caretaker?", "directory"),
    ("Where does Lena sit?", "directory"),
]
ASKED = [  # later requests, in other words
    ("I feel ill and cannot come in.", "roster"),
    ("Who could take my late shift?", "roster"),
    ("Did they pay our last invoice?", "ledger"),
    ("What did we spend on travel?", "ledger"),
    ("Since this morning's release the page is broken.", "deploy"),
    ("Why are the pages slow today?", "metrics"),
    ("Is there enough disk left on the mail server?", "metrics"),
    ("Where are the boxes that we sent to Rome?", "courier"),
    ("An angry user cannot log in.", "tickets"),
    ("When could we two talk?", "calendar"),
    ("Where does the new colleague sit?", "directory"),
]


def right(index: PredictiveAssociativeIndex, asked: list[tuple[str, str]]) -> int:
    """Returns the number of requests for which the first tool is the right one."""
    return sum(index.recall(text=request, k=1)[0].id == tool for request, tool in asked)


def main() -> None:
    index = PredictiveAssociativeIndex(embedder="default")  # .open("folder", ...) makes a durable one
    index.add(ids=list(TOOLS), texts=list(TOOLS.values()))
    before = right(index, ASKED)
    print(f"Before any use: {before} of {len(ASKED)} right.")
    for count, (request, tool) in enumerate(USED, start=1):
        index.feedback(request, used=[tool])  # only the tool that served the request, not all retrieved tools
        if count % 5 == 0:
            print(f"After {count} requests that were served: {right(index, ASKED)} of {len(ASKED)} right.")
    if right(index, ASKED) <= before:
        raise SystemExit("The selector should have got better.")


if __name__ == "__main__":
    main()
