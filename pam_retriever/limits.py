"""The limits of an index; docs/reference/guarantees.md lists them.

Input beyond a limit is refused with ``InvalidInput`` (from a caller) or ``IndexFormatError`` (from a folder), before
anything is stored or allocated.
"""

from __future__ import annotations

# arguments of calls
MAX_DIM = 65_536
MAX_ID_BYTES = 4_096  # UTF-8
MAX_TENANT_BYTES = 150  # UTF-8; in base32 it is the name of a folder
MAX_TEXT_BYTES = 16_000_000  # UTF-8
MAX_METADATA_BYTES = 1_000_000  # of one memory, as JSON
MAX_METADATA_DEPTH = 64  # SQLite's own JSON parser stops at 1,000
MAX_WINDOW = 1_000
MAX_HOPS = 32
MAX_PATHS = 1_000  # of fan_out and of beam: each query of a hop needs memory for their product
MIN_LENGTH, MAX_LENGTH = 1e-18, 1e18  # of a vector, so that float32 can represent its square
MAX_SEED = 2**63 - 1
MAX_SALIENCE = 1e6  # larger values dominate all others, and training may diverge
MAX_WEIGHT = 1e6  # of a memory that served a request: sums of products of weights have to stay finite in float32
MAX_FILTER_DEPTH = 16  # SQLite's parser holds 100 open symbols; a level here takes up to four
MAX_FILTER_TESTS = 30_000  # SQLite's limit is 32,766 parameters

# contents of files
MAX_MANIFEST_BYTES = 1_000_000
MAX_LINE = 10_000_000  # characters of one event in a JSONL file
MAX_BATCH = 50_000_000  # characters of the events in memory
MAX_HIDDEN = 65_536  # width of a predictor's layers
MAX_LAYERS = 64
