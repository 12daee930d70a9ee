-- Version 3: what tasks use that is scarce, and tasks that stand aside while others are in their way.

ALTER TYPE {s}.item ADD ATTRIBUTE limits text[];
ALTER TABLE {s}.ready ADD COLUMN limits text[];
ALTER TABLE {s}.waiting ADD COLUMN limits text[],
    ADD COLUMN lane text COLLATE "C";              -- it stands aside with all of its sort: only a running task is in the way
ALTER TABLE {s}.lease ADD COLUMN limits text[];
CREATE INDEX lease_limits ON {s}.lease (id) WHERE limits IS NOT NULL;
DROP INDEX {s}.waiting_due;
CREATE INDEX waiting_due ON {s}.waiting (due) WHERE NOT held AND NOT blocked AND lane IS NULL;
CREATE INDEX waiting_lane ON {s}.waiting (lane, key) WHERE lane IS NOT NULL;

CREATE TABLE {s}.lane (               -- tasks of one sort (size, tags, paths, limits) that may not run now
    lane text COLLATE "C" PRIMARY KEY,
    blocker text COLLATE "C" NOT NULL,    -- the task in the way, or = and a key that is used up; empty: only time
    due float8 NOT NULL               -- when to look again at the latest
);
CREATE INDEX lane_blocker ON {s}.lane (blocker);
CREATE INDEX lane_due ON {s}.lane (due);

CREATE TABLE {s}.start (              -- when keys that are limited by the minute were used
    key text COLLATE "C" NOT NULL,
    at float8 NOT NULL
);
CREATE INDEX start_key ON {s}.start (key, at);

-- Whoever may work in the queue may do so here, too: rights on the tables of before hold for the new ones.
DO $$ DECLARE had record; fresh text; BEGIN
    FOR had IN SELECT grantee, privilege_type FROM information_schema.role_table_grants
        WHERE table_schema = '{t}' AND table_name = 'waiting' AND grantee NOT IN ('PUBLIC', current_user) LOOP
        FOREACH fresh IN ARRAY ARRAY['lane', 'start'] LOOP
            EXECUTE format('GRANT %s ON {q}.%I TO %I', had.privilege_type, fresh, had.grantee);
        END LOOP;
    END LOOP;
END $$;
DROP FUNCTION IF EXISTS {s}.in_the_way(text[]);
DROP FUNCTION IF EXISTS {s}.pick(int, text[], boolean[]);
