-- Version 2: the servers on which a queue has lived. A restart, a fail-over and a restored dump each begin something new.

ALTER TABLE {s}.meta
    ADD COLUMN era int NOT NULL DEFAULT 1,         -- counts the clusters: each numbers transactions from its own start
    ADD COLUMN system text NOT NULL DEFAULT '';    -- the cluster of this era
UPDATE {s}.meta SET system = (SELECT c.system_identifier::text FROM pg_control_system() c);
ALTER TABLE {s}.event ADD COLUMN era int NOT NULL DEFAULT 1;
ALTER TABLE {s}.event DROP CONSTRAINT event_pkey, ADD PRIMARY KEY (era, xid, seq);

CREATE TABLE {s}.life (               -- since when a server serves the queue, for each history that one went on with
    epoch bigint PRIMARY KEY,
    since float8 NOT NULL
);
INSERT INTO {s}.life (epoch, since) VALUES ({s}.epoch(), 0);

ALTER TABLE {s}.member ADD COLUMN lease float8 NOT NULL DEFAULT 900;
ALTER TABLE {s}.lock ADD COLUMN seconds float8 NOT NULL DEFAULT 0;   -- how long it was asked for last
CREATE INDEX log_at ON {s}.log (at);
DROP FUNCTION IF EXISTS {s}.mend(float8);
DROP FUNCTION IF EXISTS {s}.too_late({s}.ending, float8);
