-- What a queue is made of. {s} stands for the queue's schema. Times are unix seconds, as everywhere in taskpit.
-- The wide row `task` is written when a task is put and when it ends. In between it lives in one narrow, hot
-- row: `ready`, `waiting` or `lease`. So a claim never rewrites a task's text.

CREATE TABLE {s}.meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version int NOT NULL,
    serves int NOT NULL,              -- the oldest taskpit schema version whose programs may still work here
    space text NOT NULL,              -- this queue and no other: cursors carry it
    config text NOT NULL DEFAULT ''
);

CREATE TABLE {s}.task (
    id text COLLATE "C" PRIMARY KEY,
    state "char" NOT NULL,            -- w: others need it, nobody has put it; o: open; d: done; f: failed
    key bytea NOT NULL,               -- priority, age, number, name: sorts as tasks are taken
    wish bytea NOT NULL,              -- digest of what was asked for first
    doc text NOT NULL,                -- the task, as JSON
    result text,                      -- its result, as JSON
    fence text,                       -- of the claim that ended it, its verdict, and the mark of that very end
    verdict text,
    mark text
) WITH (fillfactor = 80);
CREATE INDEX task_over ON {s}.task (state, key) WHERE state IN ('d', 'f');

CREATE TABLE {s}.ready (              -- may be taken now
    big boolean,
    key bytea,
    id text COLLATE "C" NOT NULL,
    tags text[],
    touches text[],
    mark text,                        -- of the end that brought it back, so that repeating it is known
    PRIMARY KEY (big, key)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE {s}.ready_tag (          -- the same once more under each of its tags, so that each has a head
    tag text COLLATE "C",
    big boolean,
    key bytea,
    PRIMARY KEY (tag, big, key)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE {s}.waiting (            -- may not be taken yet
    id text COLLATE "C" PRIMARY KEY,
    big boolean NOT NULL,
    key bytea NOT NULL,
    tags text[],
    touches text[],
    mark text,
    held boolean NOT NULL,            -- a person must look
    blocked boolean NOT NULL,         -- something it needs is not done
    due float8 NOT NULL               -- not before this
);
CREATE UNIQUE INDEX waiting_key ON {s}.waiting (key);
CREATE INDEX waiting_due ON {s}.waiting (due) WHERE NOT held AND NOT blocked;

CREATE TABLE {s}.need (               -- what a waiting task still waits for
    on_id text COLLATE "C",
    id text COLLATE "C",
    place int NOT NULL,               -- which of its needs this is
    PRIMARY KEY (on_id, id)
);
CREATE INDEX need_of ON {s}.need (id);

CREATE TABLE {s}.lease (              -- somebody's; no index on times, so that renewing touches no index
    id text COLLATE "C" PRIMARY KEY,
    key bytea NOT NULL,
    touches text[],
    mark text,
    fence text NOT NULL,
    worker text NOT NULL,
    member bigint,                    -- the worker that stays which took it, if one did
    call text NOT NULL,               -- the request that took it, so that repeating it takes nothing more
    since float8 NOT NULL,
    seen float8 NOT NULL,
    until float8 NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX lease_touches ON {s}.lease (id) WHERE touches IS NOT NULL;

CREATE TABLE {s}.member (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    worker text NOT NULL UNIQUE,
    host text NOT NULL,               -- machine, boot and process: whoever is on the same machine can look
    pid bigint NOT NULL,
    born text NOT NULL,
    until float8 NOT NULL
);

CREATE TABLE {s}.event (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    at float8 NOT NULL,
    worker text NOT NULL,
    action text NOT NULL,
    id text NOT NULL DEFAULT '',
    details text NOT NULL DEFAULT '',
    doc text,                         -- a line told from outside, as it was
    PRIMARY KEY (xid, seq)
);

CREATE TABLE {s}.attempt (id text COLLATE "C", n bigint GENERATED ALWAYS AS IDENTITY, doc text NOT NULL, PRIMARY KEY (id, n));
CREATE TABLE {s}.late (id text COLLATE "C", n bigint GENERATED ALWAYS AS IDENTITY, at float8 NOT NULL, fence text NOT NULL,
    doc text NOT NULL, PRIMARY KEY (id, n));
CREATE TABLE {s}.note (id text COLLATE "C", n bigint GENERATED ALWAYS AS IDENTITY, at float8 NOT NULL, worker text NOT NULL,
    kind text NOT NULL DEFAULT '', words text NOT NULL, PRIMARY KEY (id, n));
CREATE TABLE {s}.stop (id text COLLATE "C" PRIMARY KEY);
CREATE TABLE {s}.pause (one boolean PRIMARY KEY DEFAULT true CHECK (one), said text NOT NULL, until float8 NOT NULL);
CREATE TABLE {s}.lock (
    name text COLLATE "C" PRIMARY KEY,
    holder text,                      -- none while it is free; its number stays for ever
    kind text NOT NULL,
    number bigint NOT NULL,
    acquired float8 NOT NULL,
    expires float8 NOT NULL
);
CREATE TABLE {s}.log (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, worker text NOT NULL, at float8 NOT NULL, data bytea NOT NULL);
CREATE TABLE {s}.digest (n bigint PRIMARY KEY, worker text NOT NULL, at float8 NOT NULL, bytes int NOT NULL, last text NOT NULL);
CREATE UNLOGGED TABLE {s}.waiter (who text PRIMARY KEY, until timestamptz NOT NULL);

CREATE SEQUENCE {s}.task_number;
CREATE SEQUENCE {s}.fence_number;

-- What goes over the wire: a task that is put or goes back, and an end.
CREATE TYPE {s}.item AS (
    n int, id text, key text, wish text, doc text, big boolean, tags text[], touches text[], held boolean, due float8,
    needs text[], worker text, details text, mark text
);

CREATE TYPE {s}.ending AS (
    n int, id text, fence text, mark text, seen float8, verdict text, result text, attempt text, late text, back json,
    children json, note_kind text, note text, action text, details text
);

-- What a person with psql wants to see.
CREATE VIEW {s}.tasks AS
    SELECT t.id, t.doc::json ->> 'title' AS title,
           CASE t.state WHEN 'd' THEN 'done' WHEN 'f' THEN 'failed'
                ELSE CASE WHEN l.id IS NOT NULL THEN 'claimed' WHEN w.id IS NOT NULL THEN 'held' ELSE 'ready' END END AS state,
           l.fence AS worker, to_timestamp(l.until) AS lease_ends, t.doc::json AS task, t.result::json AS result
    FROM {s}.task t LEFT JOIN {s}.lease l USING (id) LEFT JOIN {s}.waiting w USING (id)
    WHERE t.state <> 'w';
