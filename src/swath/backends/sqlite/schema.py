"""The tables of the store, their upgrades, and the codes that rows use.

Counts are kept in columns and never counted; claims read by primary key from a frontier and never search. Fresh
items
of a job are those beyond `next_seq`. Items that wait to be handed out again (after a retry, from a dead worker, a
new
generation) are listed in `waiting`. So finding work costs the same at ten rows and at ten million.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from swath.domain.transitions import ItemState

__all__ = ["SCHEMA", "SCHEMA_VERSION", "STATE_CODES", "STATE_NAMES", "UPGRADES", "Rank"]

SCHEMA_VERSION: Final = 6

# What makes a store of a former version one of the next, beside the tables and indexes that it does not have yet.
# A process of the former version may still be at work on it, so what there is keeps its shape.
UPGRADES: Final[dict[int, tuple[str, ...]]] = {
    3: ("ALTER TABLE jobs ADD COLUMN on_demand INTEGER NOT NULL DEFAULT 0",),
    4: (
        "ALTER TABLE jobs ADD COLUMN versions INTEGER NOT NULL DEFAULT 1",
        "ALTER TABLE jobs ADD COLUMN current_version INTEGER NOT NULL DEFAULT 1",
    ),
    5: (
        "ALTER TABLE jobs ADD COLUMN reopened INTEGER NOT NULL DEFAULT 3",
        "ALTER TABLE jobs ADD COLUMN unfinished TEXT",
        "ALTER TABLE jobs ADD COLUMN scraper_versions TEXT NOT NULL DEFAULT '[]'",
    ),
}

# Small numbers, because there is one in every row. 0 is "not ended"; the lease says whether queued or in progress.
STATE_CODES: Final[dict[ItemState, int]] = {
    ItemState.PENDING: 0,
    ItemState.SUCCESS: 1,
    ItemState.FAILED: 2,
    ItemState.SKIPPED: 3,
    ItemState.CANCELLED: 4,
}
STATE_NAMES: Final[dict[int, ItemState]] = {code: state for state, code in STATE_CODES.items()}


class Rank(IntEnum):
    """In which row of `waiting` an item stands; suspects are handed out first, one by one."""

    SUSPECT = 0
    BEGUN = 1
    UNTRIED = 2  # was leased and came back with nothing done to it
    REOPENED = 3  # by a retry, and not leased since: as good as fresh. Each retry has a rank of its own from here on


# Small columns come before large ones, which a reader of the former then need not touch.
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS jobs (
    job_no      INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice
    job_id      TEXT NOT NULL UNIQUE,
    state       TEXT NOT NULL,
    stopping    TEXT,                        -- why it ends before its items are all done
    revision    INTEGER NOT NULL DEFAULT 0,  -- of its policy
    generation  INTEGER NOT NULL DEFAULT 1,
    priority    INTEGER NOT NULL,
    concurrency INTEGER NOT NULL,            -- max_concurrent_workers
    total       INTEGER NOT NULL DEFAULT 0,
    success     INTEGER NOT NULL DEFAULT 0,
    not_found   INTEGER NOT NULL DEFAULT 0,
    failed      INTEGER NOT NULL DEFAULT 0,
    skipped     INTEGER NOT NULL DEFAULT 0,
    cancelled   INTEGER NOT NULL DEFAULT 0,
    cost        REAL NOT NULL DEFAULT 0,     -- of its ended items, over all generations
    next_seq    INTEGER NOT NULL DEFAULT 0,  -- items beyond it were never leased
    fresh       INTEGER NOT NULL DEFAULT 0,  -- and there are so many of them
    served      INTEGER NOT NULL DEFAULT 0,  -- leases granted in all when it last got one or became ready to run
    released    INTEGER NOT NULL DEFAULT 0,  -- this and the next four: the circuit
    finished    INTEGER NOT NULL DEFAULT 0,
    in_a_row    INTEGER NOT NULL DEFAULT 0,
    opened      TEXT,
    window      TEXT NOT NULL DEFAULT '',
    batches     INTEGER NOT NULL DEFAULT 0,
    loaded_rows INTEGER NOT NULL DEFAULT 0,
    started_at  REAL,                        -- this generation
    ended_at    REAL,
    pace        REAL NOT NULL DEFAULT 0,     -- this and the next two: domain/pace.py; at its end: overall
    steady      REAL NOT NULL DEFAULT 0,
    mark_at     REAL,                        -- on the boot clock
    mark_ended  INTEGER NOT NULL DEFAULT 0,  -- items that were run by earlier generations
    deleting    INTEGER NOT NULL DEFAULT 0,
    delete_at   REAL,                        -- Unix seconds; 0: at once
    purged      INTEGER NOT NULL DEFAULT 0,  -- items that its deletion has removed
    spec        BLOB NOT NULL,               -- the Job, as JSON
    ordered     BLOB NOT NULL,               -- the same as it was first given
    manifest    BLOB,
    on_demand   INTEGER NOT NULL DEFAULT 0,  -- 1: somebody waits for it
    versions    INTEGER NOT NULL DEFAULT 1,  -- of its results; the first is its own
    current_version INTEGER NOT NULL DEFAULT 1, -- which of them readers get
    reopened    INTEGER NOT NULL DEFAULT 3,  -- the rank in `waiting` of the items that the last retry selected
    unfinished  TEXT,                        -- digest of a batch of which only a part is stored so far
    scraper_versions TEXT NOT NULL DEFAULT '[]'  -- under which items have ended; JSON
);
CREATE INDEX IF NOT EXISTS jobs_open ON jobs (job_no) WHERE state IN ('loading', 'pending', 'running', 'paused');
CREATE INDEX IF NOT EXISTS jobs_runnable ON jobs (priority DESC, total, job_no) WHERE state IN ('pending', 'running');
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (on_demand, state, job_no);
CREATE INDEX IF NOT EXISTS jobs_to_delete ON jobs (delete_at, job_no) WHERE delete_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS failures (
    job_no INTEGER NOT NULL, kind TEXT NOT NULL, items INTEGER NOT NULL, PRIMARY KEY (job_no, kind)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS batches (
    job_no INTEGER NOT NULL, number INTEGER NOT NULL, digest TEXT NOT NULL, first_row INTEGER NOT NULL,
    rows INTEGER NOT NULL, loaded BLOB NOT NULL, PRIMARY KEY (job_no, number)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS load_keys (       -- where the load under a key begins
    job_no INTEGER NOT NULL, key TEXT NOT NULL, number INTEGER NOT NULL, rows INTEGER NOT NULL,
    PRIMARY KEY (job_no, key)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS items (
    job_no     INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    item_id    TEXT NOT NULL,
    input      BLOB NOT NULL,
    state      INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 0,   -- in which it has last ended
    fence      INTEGER NOT NULL DEFAULT 0,   -- of the lease that holds it or has ended it; 0: nobody
    progress   BLOB,                         -- what earlier leases did to it; none: it never began
    due        REAL,                         -- while it waits, on the boot clock
    PRIMARY KEY (job_no, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS items_by_id ON items (job_no, item_id);

CREATE TABLE IF NOT EXISTS waiting (
    job_no INTEGER NOT NULL, rank INTEGER NOT NULL, due REAL NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (job_no, rank, due, seq)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS outcomes (
    job_no INTEGER NOT NULL, seq INTEGER NOT NULL, generation INTEGER NOT NULL,
    kind TEXT,                               -- of its failure, or not_found
    ended_at REAL NOT NULL, ended BLOB NOT NULL, PRIMARY KEY (job_no, seq, generation)
) WITHOUT ROWID;
-- What people look for is what failed, which is little; the many that went well have no entry.
CREATE INDEX IF NOT EXISTS outcomes_by_kind ON outcomes (job_no, kind, seq) WHERE kind IS NOT NULL;

CREATE TABLE IF NOT EXISTS leases (
    fence    INTEGER PRIMARY KEY,
    job_no   INTEGER NOT NULL,
    worker   TEXT NOT NULL,
    purpose  TEXT NOT NULL,                  -- to run `items`, or the right to `end` or to `delete` the job
    alone    INTEGER NOT NULL DEFAULT 0,     -- 1: its one item is a suspect
    rescued  INTEGER NOT NULL DEFAULT 0,     -- 1: taken from its worker, being cleaned up by `worker`
    revision INTEGER NOT NULL,               -- of the policy it was granted under
    renewed  REAL NOT NULL,                  -- on the boot clock, like `expires`
    expires  REAL NOT NULL,
    seqs     BLOB NOT NULL DEFAULT '[]'
);
CREATE INDEX IF NOT EXISTS leases_of_job ON leases (job_no);

CREATE TABLE IF NOT EXISTS endings (         -- of jobs whose end takes long, or has killed a worker
    job_no INTEGER PRIMARY KEY,
    fence  INTEGER NOT NULL DEFAULT 0,       -- of the right to end it whose holder has reported the next three
    step   TEXT NOT NULL DEFAULT 'starting',
    done   INTEGER NOT NULL DEFAULT 0,
    total  INTEGER NOT NULL DEFAULT 0,
    deaths INTEGER NOT NULL DEFAULT 0,       -- workers that have died with that right
    due    REAL NOT NULL DEFAULT 0           -- on the boot clock: before then nobody tries to end it
);

CREATE TABLE IF NOT EXISTS shares (          -- of a worker in a job's concurrency, while it has leases there
    job_no  INTEGER NOT NULL,
    worker  TEXT NOT NULL,
    slots   INTEGER NOT NULL,
    demand  INTEGER NOT NULL,
    waiting INTEGER NOT NULL DEFAULT 0,      -- how many are queued, so that a status needs no JSON
    running INTEGER NOT NULL DEFAULT 0,      -- how many have begun
    queued  BLOB NOT NULL DEFAULT '[]',      -- which items, as it last reported
    begun   BLOB NOT NULL DEFAULT '[]',
    PRIMARY KEY (job_no, worker)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS webhooks (        -- one for each end of a job that has somebody to tell
    job_no     INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    webhook_id TEXT NOT NULL,
    url        TEXT NOT NULL,
    state      TEXT NOT NULL,
    due_at     REAL,                         -- on the boot clock; none: nothing is to be sent
    tries      INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    created_at REAL NOT NULL,
    summary    BLOB NOT NULL,
    deliveries BLOB NOT NULL,
    PRIMARY KEY (job_no, generation)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS keys (            -- of the service, hashed
    key_id     TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    digest     TEXT NOT NULL,
    scopes     TEXT NOT NULL,                -- JSON
    created_at REAL NOT NULL,
    expires_at REAL,
    revoked_at REAL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS key_lives (       -- of keys that expire
    key_id    TEXT PRIMARY KEY,
    life_ends REAL NOT NULL                  -- in seconds of the store's uptime; 0: it has expired
) WITHOUT ROWID;
"""
