"""Mistakes that a type checker must name, each marked with the rule of mypy and the rule of pyright.

This file is never run. The types of the library do not prevent mistakes on lines marked "let through"; the number of
such lines may only decrease.
"""

from __future__ import annotations

import numpy as np

from pam_retriever import FitConfig, FitReport, Hit, PredictiveAssociativeIndex, Record, Trajectory

index = PredictiveAssociativeIndex(dim=3)
vectors = np.ones((2, 3), np.float32)
vector = np.ones(3, np.float32)

# storing
index.add(vectors, ids=[1, 2])  # expect: list-item, reportArgumentType
index.add(vectors, ids=["a", "b"], metadatas=["a", "b"])  # expect: list-item, reportArgumentType
index.add(vectors, texts=[b"a", b"b"])  # expect: list-item, reportArgumentType
index.add(vectors, id=["a", "b"])  # expect: call-arg, reportCallIssue
index.delete(7)  # expect: arg-type, reportArgumentType
index.get(7)  # expect: arg-type, reportArgumentType
record: Hit = index.get(["a"])[0]  # expect: assignment, reportAssignmentType
index.find(where="a")  # expect: arg-type, reportArgumentType

# querying
hit = index.search("a", k=1)[0]
print(hit.scoer)  # expect: attr-defined, reportAttributeAccessIssue
print(index.recall("a")[0].scoer)  # expect: attr-defined, reportAttributeAccessIssue
print(index.recall(vector)[0].scoer)  # expect: attr-defined, reportAttributeAccessIssue
print(index.recall(["a"])[0][0].scoer)  # expect: attr-defined, reportAttributeAccessIssue
print(index.recall(["a"])[0].id)  # expect: attr-defined, reportAttributeAccessIssue
print(index.recall_many(vectors)[0].id)  # expect: attr-defined, reportAttributeAccessIssue
print(index.recall_many(vectors)[0][0].scoer)  # expect: attr-defined, reportAttributeAccessIssue
print(index.search_many(["a"])[0][0].scoer)  # expect: attr-defined, reportAttributeAccessIssue
print(index.recall(text="words")[0].scoer)  # expect: attr-defined, reportAttributeAccessIssue
print(index.recall(text=["words"])[0].id)  # expect: attr-defined, reportAttributeAccessIssue
print(index.search(text=["words"])[0].id)  # expect: attr-defined, reportAttributeAccessIssue
length: str = index.recall("a").ids  # expect: assignment, reportAssignmentType
metadata: Record = hit.metadata  # expect: assignment, reportAssignmentType
hit.score = 1.0  # expect: misc, reportAttributeAccessIssue
nothing = hit.text.upper()  # expect: union-attr, reportOptionalMemberAccess
offset = hit.evidence[0].offset  # expect: index, reportOptionalSubscript
index.search(7)  # expect: call-overload, reportCallIssue
index.search("a", k="ten")  # expect: call-overload, reportCallIssue
index.search("a", wehre={})  # expect: call-overload, reportCallIssue
index.recall(7)  # expect: call-overload, reportCallIssue
index.recall("a", mode="asociation")  # expect: call-overload, reportCallIssue
index.recall("a", wehre={})  # expect: call-overload, reportCallIssue
index.recall("a", hops="two")  # expect: call-overload, reportCallIssue
index.recall_many(["a"], mode="asociation")  # expect: arg-type, reportArgumentType
index.recall_many("a")  # expect: arg-type, reportArgumentType
index.recall_many(7)  # expect: arg-type, reportArgumentType
index.imagine("a").nearest[0].scoer  # expect: attr-defined, reportAttributeAccessIssue
index.imagine(["a"]).point  # expect: attr-defined, reportAttributeAccessIssue
index.expand([7])  # expect: list-item, reportArgumentType

# learning
report: FitReport = index.fit([["a", "b"]])
report.loss  # expect: attr-defined, reportAttributeAccessIssue
report.steps = 2  # expect: misc, reportAttributeAccessIssue
index.fit([[1, 2]])  # expect: list-item, reportArgumentType
index.fit(windwo=3)  # expect: call-overload, reportCallIssue
index.fit(config=3)  # expect: call-overload, reportArgumentType
index.fit(config="fats")  # expect: call-overload, reportArgumentType
index.observe([1, 2])  # expect: list-item, reportArgumentType
Trajectory(ids=[1, 2])  # expect: list-item, reportArgumentType
FitConfig(hiden=8)  # expect: call-arg, reportCallIssue
FitConfig(hidden="8")  # expect: arg-type, reportArgumentType
index.prune(keep="all")  # expect: arg-type, reportArgumentType
index.set_capacity("all")  # expect: arg-type, reportArgumentType

# opening
PredictiveAssociativeIndex.open(7)  # expect: arg-type, reportArgumentType
PredictiveAssociativeIndex(dim="three")  # expect: arg-type, reportArgumentType
PredictiveAssociativeIndex(dim=3, embedder="minilm")  # let through: the name of an embedder is any str
PredictiveAssociativeIndex(dim=3, backend="fiass")  # let through: the name of a backend is any str
index.recall(vectors)[0].id  # let through: one query or a batch, an array has one type
