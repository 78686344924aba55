"""The shared parts of the index: the store, the lock, and caches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast

from pam_retriever.embedding import Embedder
from pam_retriever.errors import InvalidInput, counted
from pam_retriever.filters.stored import to_json
from pam_retriever.index.background import BackgroundFits
from pam_retriever.index.open_tenants import OpenTenants
from pam_retriever.locks import Mutex
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.protocols import Encoder, Trainable
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.timeline import Timeline
from pam_retriever.store import naming
from pam_retriever.store.base import Store
from pam_retriever.store.database import Database
from pam_retriever.store.learnt import is_stored, nothing_to_learn
from pam_retriever.store.view import View

if TYPE_CHECKING:
    from pam_retriever.index import PredictiveAssociativeIndex
    from pam_retriever.retrieval.imagination import SpreadCalibration
    from pam_retriever.retrieval.mixture.feedback_evidence import FeedbackEvidence

Where = Mapping[str, object] | None
MOST_KNOWN = 8  # filters of feedback whose requests are cached


class IndexBase:
    """The parts of an index that its mixins share; ``PredictiveAssociativeIndex`` consists of these mixins."""

    _store: Store
    _embedder: Embedder | None

    def _begin(
        self,
        store: Store,
        embedder: Embedder | None,
        names: naming.Names | None = None,
        max_open_tenants: int | None = None,
    ) -> None:
        try:
            if embedder is not None:
                embedder.check(store.embedder)
            if names is not None:
                naming.set_names(store, names)
        except BaseException:  # a function of the user may raise anything
            store.close()
            raise
        self._store, self._embedder = store, embedder
        make = partial(self._tenant_in, embedder)
        self._tenants = None if max_open_tenants is None else OpenTenants(store, make, max_open_tenants)
        self._background = BackgroundFits()
        self._lock, self._learning = store.lock, Mutex()
        self._evidence: dict[str, FeedbackEvidence] = {}  # by filter of feedback
        self._knowing = Mutex()
        self._text_caches: tuple[Database, Lexicon, Timeline] | None = None
        self._imagined: tuple[PredictorWeights | None, SpreadCalibration] | None = None  # and its predictor

    @classmethod
    def _tenant_in(
        cls, embedder: Embedder | None, names: naming.Names | None, store: Store
    ) -> tuple[PredictiveAssociativeIndex, BackgroundFits]:
        """Creates the index of a tenant, with its background fits."""
        tenant = cls.__new__(cls)
        tenant._begin(store, embedder, names)
        return cast("PredictiveAssociativeIndex", tenant), tenant._background

    def _feedback_evidence(self, view: View, where: Where) -> FeedbackEvidence | None:
        """Returns the evidence of past requests that satisfy a filter; None if before a fit no request does.

        The evidence is cached, and writes update it. The caller holds the lock: no write may happen during the call.
        """
        table, name = view.database.feedback, to_json({} if where is None else where)
        with self._knowing:
            found = self._evidence.get(name)
            if found is not None and found.is_current(view):
                return None if found.is_empty else found
            if not table.state()[0]:
                return None
            if found is None or not found.follow(view):
                from pam_retriever.retrieval.mixture.feedback_evidence import FeedbackEvidence

                found = FeedbackEvidence(view, self._lexicon, self._timeline, where or {})
                if len(self._evidence) >= MOST_KNOWN:
                    self._evidence.clear()
                self._evidence[name] = found
            return None if found.is_empty else found

    def _search_names(self) -> None:
        """Searches the memories for names before a query, if such a search is pending."""
        with self._lock.shared():
            late = naming.has_to_search(self._store)
        if late:
            with self._lock.exclusive():
                naming.search(self._store)

    @property
    def _lexicon(self) -> Lexicon:
        return self._known_of_documents()[1]

    @property
    def _timeline(self) -> Timeline:
        return self._known_of_documents()[2]

    def _known_of_documents(self) -> tuple[Database, Lexicon, Timeline]:
        """Returns the cached words and times of the database. A reader may switch to another database."""
        database = self._store.database  # not earlier: reading the property reports damage found meanwhile
        cached = self._text_caches
        if cached is None or cached[0] is not database:
            lexicon = Lexicon(database)
            self._text_caches = cached = database, lexicon, Timeline(database, lexicon)
        return cached

    @property
    def embedder_name(self) -> str | None:
        """The stored name of the embedder that made the vectors of texts; None without an embedder."""
        with self._lock.shared():
            return self._store.embedder

    def _name_embedder(self, name: str) -> None:
        """Stores the name of the embedder that made the given vectors, unless a name is stored. Adapters call it."""
        if self.embedder_name is None:
            with self._lock.exclusive():
                if self._store.embedder is None:
                    self._store.set_embedder(name)

    def _keep_learnt(self, name: str, value: object, weights: bytes | None = None) -> None:
        """Stores what ``fit`` learnt from experience, unless all experience was deleted meanwhile."""
        with self._lock.exclusive():
            if not nothing_to_learn(self._store.links):
                self._store.set_setting(name, value, weights)

    def _discard(self, names: tuple[str, ...]) -> None:
        """Removes these settings and weights of ``fit``, if any is stored; see ``store.learnt``."""
        with self._lock.exclusive():
            settings = self._store.database.settings
            if any(is_stored(settings, name) for name in names):
                self._store.discard(names)
                self._evidence.clear()

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return self._store.dim

    @property
    def encoder(self) -> Encoder | None:
        """A copy of the encoder, for further training; None for an index of vectors."""
        space = self._store.space
        return None if space is None else space.encoder.duplicate(trainable=True)

    @property
    def outward(self) -> Trainable | None:
        """A copy of the outward predictor that was given to ``reencode``, or None."""
        space = self._store.space
        return None if space is None or space.outward is None else space.outward.duplicate(trainable=True)

    @property
    def is_fitted(self) -> bool:
        """Whether ``recall`` has a predictor."""
        with self._lock.shared():
            return self._store.predictor is not None

    def __len__(self) -> int:
        with self._lock.shared():
            return len(self._store.database.memories)

    def __contains__(self, id: object) -> bool:
        with self._lock.shared():
            return isinstance(id, str) and id in self._store.database.memories.rows_of([id])

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuses ``pickle`` and ``copy``: two objects would share one database.

        Raises:
            InvalidInput: always.
        """
        raise InvalidInput(
            f"{self!r} was to be pickled or copied.",
            "its folder, which several processes may read",
            "save(path), then load(path) there, or open(path, read_only=True).",
        )

    def __repr__(self) -> str:
        with self._lock.shared():
            store = self._store
            if store.closed:
                return f"PredictiveAssociativeIndex(dim={store.dim}, closed)"
            fitted = f"fitted with window {store.window}" if store.predictor else "not fitted"
            senses = f" of {', '.join(store.space.encoder.modalities)}" if store.space else ""
            return (
                f"PredictiveAssociativeIndex(dim={store.dim}, {counted(len(self), 'memory')}{senses}, "
                f"{counted(len(store.database.trajectories), 'trajectory')}, {fitted}, "
                f"{store.backend} ({store.similar.description}), {store.location})"
            )
