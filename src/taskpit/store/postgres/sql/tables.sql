-- The tables of a queue in schema {s}. Times are unix seconds.
-- The wide row `task` is written when a task is put and when it ends. In between the task has one narrow row in `ready`,
-- `waiting` or `lease`, so that a claim never rewrites its text.

CREATE TABLE {s}.meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version int NOT NULL,
    serves int NOT NULL,              -- the oldest schema version whose programs still work here
    space text NOT NULL,              -- identifies this queue in cursors
    config text NOT NULL DEFAULT '',
    era int NOT NULL DEFAULT 1,       -- counts the clusters the queue lived on: each numbers transactions from its own start
    system text NOT NULL DEFAULT ''   -- the cluster of this era
);

CREATE TABLE {s}.task (
    id text COLLATE "C" PRIMARY KEY,
    state "char" NOT NULL,            -- w: only needed by others so far; o: open; d: done; f: failed
    key bytea NOT NULL,               -- priority, age, number, name: sorts in the order of claims
    wish bytea NOT NULL,              -- digest of the first request
    doc text NOT NULL,                -- the task, as JSON
    result text,                      -- its result, as JSON
    fence text,                       -- of the claim that ended it, its verdict, and the mark of that end
    verdict text,
    mark text,
    archived text                     -- the file that has all of it
) WITH (fillfactor = 80);
CREATE INDEX task_ended ON {s}.task (state, key) WHERE state IN ('d', 'f');

CREATE TABLE {s}.tally (              -- changes of the numbers of open, done and failed tasks; their sums are the numbers
    open bigint NOT NULL,
    done bigint NOT NULL,
    failed bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE {s}.ready (              -- may be claimed now
    big boolean,
    key bytea,
    id text COLLATE "C" NOT NULL,
    tags text[],
    touches text[],
    limits text[],
    mark text,                        -- of the end that put it back, so that a repetition is recognized
    PRIMARY KEY (big, key)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE {s}.ready_tag (          -- the same once more under each of its tags, so that each tag has a first row
    tag text COLLATE "C",
    big boolean,
    key bytea,
    PRIMARY KEY (tag, big, key)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE {s}.waiting (            -- may not be claimed yet
    id text COLLATE "C" PRIMARY KEY,
    big boolean NOT NULL,
    key bytea NOT NULL,
    tags text[],
    touches text[],
    limits text[],
    mark text,
    held boolean NOT NULL,            -- a person must look
    blocked boolean NOT NULL,         -- something it needs is not done
    due float8 NOT NULL,              -- not before this
    lane text COLLATE "C"             -- it is parked with all of its sort: a running task is in the way
);
CREATE UNIQUE INDEX waiting_key ON {s}.waiting (key);
CREATE INDEX waiting_due ON {s}.waiting (due) WHERE NOT held AND NOT blocked AND lane IS NULL;
CREATE INDEX waiting_lane ON {s}.waiting (lane, key) WHERE lane IS NOT NULL;

CREATE TABLE {s}.lane (               -- tasks of one sort (size, tags, paths, limits) that may not run now
    lane text COLLATE "C" PRIMARY KEY,
    blocker text COLLATE "C" NOT NULL,    -- the task in the way, or = and a limit that is used up; empty: only time
    due float8 NOT NULL               -- when to look again at the latest
);
CREATE INDEX lane_blocker ON {s}.lane (blocker);
CREATE INDEX lane_due ON {s}.lane (due);
CREATE TABLE {s}.turn (one boolean PRIMARY KEY DEFAULT true CHECK (one));    -- locked by `one_by_one`
INSERT INTO {s}.turn DEFAULT VALUES;

CREATE TABLE {s}.start (              -- when limits per minute were used
    key text COLLATE "C" NOT NULL,
    at float8 NOT NULL
);
CREATE INDEX start_key ON {s}.start (key, at);

CREATE TABLE {s}.need (               -- what a waiting task still waits for
    on_id text COLLATE "C",
    id text COLLATE "C",
    place int NOT NULL,               -- which of its needs this is
    PRIMARY KEY (on_id, id)
);
CREATE INDEX need_of ON {s}.need (id);

CREATE TABLE {s}.lease (              -- claimed; no index on times, so that a renewal touches no index
    id text COLLATE "C" PRIMARY KEY,
    key bytea NOT NULL,
    touches text[],
    limits text[],
    mark text,
    fence text NOT NULL,
    worker text NOT NULL,
    member bigint,                    -- the registered worker that claimed it, if one did
    call text NOT NULL,               -- the request that claimed it, so that a repetition takes nothing more
    since float8 NOT NULL,
    seen float8 NOT NULL,
    until float8 NOT NULL,
    graced float8 NOT NULL DEFAULT 0  -- it expired in an outage and lasts until this time; 0: it did not
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX lease_touches ON {s}.lease (id) WHERE touches IS NOT NULL;
CREATE INDEX lease_limits ON {s}.lease (id) WHERE limits IS NOT NULL;

CREATE TABLE {s}.member (             -- workers that stay
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    worker text NOT NULL UNIQUE,
    host text NOT NULL,               -- machine, boot and process: others on the same machine can look
    pid bigint NOT NULL,
    born text NOT NULL,
    until float8 NOT NULL,
    lease float8 NOT NULL,
    graced float8 NOT NULL DEFAULT 0
);

CREATE TABLE {s}.contact (            -- one row: when a pool, gateway or sweep last reached the server
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    at float8 NOT NULL,
    epoch bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE TABLE {s}.outage (             -- gaps in it; a later gap removes the shorter ones before it
    ended float8 NOT NULL,
    seconds float8 NOT NULL
);

CREATE TABLE {s}.event (
    era int NOT NULL DEFAULT 1,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    at float8 NOT NULL,
    worker text NOT NULL,
    action text NOT NULL,
    id text NOT NULL DEFAULT '',
    details text NOT NULL DEFAULT '',
    doc text,                         -- a line from elsewhere, as it was
    PRIMARY KEY (era, xid, seq)
);
CREATE TABLE {s}.kept (               -- how far `prune` has read the changelog, for each state
    state "char" PRIMARY KEY,
    era int NOT NULL,
    xid xid8 NOT NULL,
    seq bigint NOT NULL
);

CREATE TABLE {s}.attempt (id text COLLATE "C", n bigint GENERATED ALWAYS AS IDENTITY, doc text NOT NULL, PRIMARY KEY (id, n));
CREATE TABLE {s}.late (id text COLLATE "C", n bigint GENERATED ALWAYS AS IDENTITY, at float8 NOT NULL, fence text NOT NULL,
    doc text NOT NULL, PRIMARY KEY (id, n));
CREATE TABLE {s}.note (id text COLLATE "C", n bigint GENERATED ALWAYS AS IDENTITY, at float8 NOT NULL, worker text NOT NULL,
    kind text NOT NULL DEFAULT '', words text NOT NULL, PRIMARY KEY (id, n));
CREATE TABLE {s}.stop (id text COLLATE "C" PRIMARY KEY);
CREATE TABLE {s}.pause (one boolean PRIMARY KEY DEFAULT true CHECK (one), reason text NOT NULL, until float8 NOT NULL);
CREATE TABLE {s}.lock (
    name text COLLATE "C" PRIMARY KEY,
    holder text,                      -- NULL while it is free; its number stays
    kind text NOT NULL,
    number bigint NOT NULL,
    acquired float8 NOT NULL,
    expires float8 NOT NULL,
    seconds float8 NOT NULL DEFAULT 0,
    graced float8 NOT NULL DEFAULT 0
);
CREATE TABLE {s}.log (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, worker text NOT NULL, at float8 NOT NULL, data bytea NOT NULL);
CREATE INDEX log_at ON {s}.log (at);
CREATE TABLE {s}.digest (n bigint PRIMARY KEY, worker text NOT NULL, at float8 NOT NULL, bytes int NOT NULL, last text NOT NULL);
CREATE TABLE {s}.printed (            -- pieces of the log of a claim, until they become a log
    id text COLLATE "C",
    fence text,
    start bigint,
    at float8 NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (id, fence, start)
);
CREATE TABLE {s}.artifact (
    id text COLLATE "C",
    name text COLLATE "C",
    sha256 text NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (id, name)
);
CREATE TABLE {s}.floor (              -- no ready task comes before this; no row: look from the start
    big boolean PRIMARY KEY,
    key bytea NOT NULL,
    dead bigint NOT NULL              -- how many rows were dead then
);
CREATE UNLOGGED TABLE {s}.waiter (sleeper text PRIMARY KEY, until timestamptz NOT NULL);

CREATE SEQUENCE {s}.task_number;
CREATE SEQUENCE {s}.fence_number;

-- Items of the lists that verbs take as jsonb: a task that is put or goes back, and an end.
CREATE TYPE {s}.item AS (
    n int, id text, key text, wish text, doc text, big boolean, tags text[], touches text[], held boolean, due float8,
    needs text[], worker text, details text, mark text, limits text[]
);
CREATE TYPE {s}.ending AS (
    n int, id text, fence text, mark text, seen float8, verdict text, result text, attempt text, late text, back jsonb,
    children jsonb, note_kind text, note text, action text, details text
);

-- For a person with psql.
CREATE VIEW {s}.tasks AS
    SELECT t.id, t.doc::json ->> 'title' AS title,
           CASE t.state WHEN 'd' THEN 'done' WHEN 'f' THEN 'failed'
                ELSE CASE WHEN l.id IS NOT NULL THEN 'claimed' WHEN w.id IS NOT NULL THEN 'held' ELSE 'ready' END END AS state,
           l.fence AS worker, to_timestamp(l.until) AS lease_ends, t.doc::json AS task, t.result::json AS result
    FROM {s}.task t LEFT JOIN {s}.lease l USING (id) LEFT JOIN {s}.waiting w USING (id)
    WHERE t.state <> 'w';

-- For a monitor: one row, which reads no row of a task that is ready.
CREATE VIEW {s}.stats AS
    SELECT (SELECT coalesce(sum(y.open), 0)::bigint FROM {s}.tally y) - (SELECT count(*) FROM {s}.lease)
               - (SELECT count(*) FROM {s}.waiting) AS ready,
           (SELECT count(*) FROM {s}.waiting w WHERE NOT w.held) AS waiting,
           (SELECT count(*) FROM {s}.waiting w WHERE w.held) AS held,
           (SELECT count(*) FROM {s}.lease) AS claimed,
           (SELECT count(*) FROM {s}.lease l WHERE l.until < x.now) AS overdue,      -- a sweep gives them back
           (SELECT count(*) FROM {s}.member m WHERE m.until >= x.now) AS workers,
           EXISTS (SELECT 1 FROM {s}.pause p WHERE p.until = 0 OR p.until > x.now) AS paused,
           pg_stat_get_dead_tuples('{q}.ready'::regclass) AS dead_rows              -- many, for long: `pit doctor`
    FROM (SELECT extract(epoch FROM clock_timestamp())::float8 AS now) x;
