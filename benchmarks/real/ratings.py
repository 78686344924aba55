"""``python -m benchmarks.real.ratings``: what people rated highly, in order of time.

MovieLens 100k (Harper and Konstan, ACM TiiS 2015) in the format of RecBole, whose package has it
(``recbole/dataset_example/ml-100k``). Pass a folder with ``ml-100k.inter`` and ``ml-100k.item``, or set
``PAM_DATA_DIR`` to the folder that contains it as ``ml-100k``.

A walk is what a person gave at least 4 of 5 stars, in order of time; people with more than three such films count. A
film is embedded by its title, its year and its genres. The protocol is that of ``benchmarks.real.wikispeedia``, with
people in order of their first rating.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from benchmarks import report
from benchmarks.real import data
from benchmarks.real.wikispeedia import Walk, compare, embed, parser_of, part_of

LIKED, FEWEST = 4, 4  # stars; films per person


def read(folder: Path) -> tuple[list[str], list[Walk]]:
    """Returns the texts of all films, and the walks in order of time."""
    rows = list(_rows(folder / "ml-100k.item"))
    position = {film[0]: at for at, film in enumerate(rows)}
    liked: dict[str, list[tuple[int, int]]] = {}
    for person, film, stars, time in _rows(folder / "ml-100k.inter"):
        if float(stars) >= LIKED:
            liked.setdefault(person, []).append((int(float(time)), position[film]))
    many = [sorted(films) for films in liked.values() if len(films) >= FEWEST]
    walks = [Walk(films[0][0], tuple(film for _, film in films)) for films in many]
    texts = [f"{title} ({year}). {genres}" for _, title, year, genres in rows]
    return texts, sorted(walks, key=lambda walk: walk.time)


def _rows(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows)  # the names of the columns
        yield from rows


def main() -> None:
    arguments = parser_of(__doc__, "real/ratings").parse_args()
    texts, walks = read(data.find(arguments.folder, ("ml-100k",), __doc__ or ""))
    training, test = part_of(walks, arguments.part)
    vectors = embed(texts, arguments.model)
    result = {
        "seed": arguments.seed,
        "part": arguments.part,
        "embedder": arguments.model or "all-MiniLM-L6-v2",
        "people": {"training": len(training), "test": len(test)},
        **compare(texts, vectors, training, test, arguments.seed),
    }
    print(f"\nwritten to {report.write(arguments.name, result)}")


if __name__ == "__main__":
    main()
