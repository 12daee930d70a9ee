-- Version 6: where claims begin to look, while a transaction that stays open keeps dead rows from being cleaned away;
-- done tasks that were archived to a file; a row for monitors.

ALTER TABLE {s}.task ADD COLUMN archived text;    -- the file with all of it

CREATE TABLE {s}.floor (              -- no ready task comes before this; no row: look from the start
    big boolean PRIMARY KEY,
    key bytea NOT NULL,
    dead bigint NOT NULL              -- how many rows were dead then
);

-- What whoever watches the queue wants to know: one row, cheap enough to be asked each minute.
CREATE VIEW {s}.stats AS
    SELECT (SELECT count(*) FROM {s}.ready) AS ready,
           (SELECT count(*) FROM {s}.waiting w WHERE NOT w.held) AS waiting,
           (SELECT count(*) FROM {s}.waiting w WHERE w.held) AS held,
           (SELECT count(*) FROM {s}.lease) AS claimed,
           (SELECT count(*) FROM {s}.lease l WHERE l.until < x.now) AS overdue,      -- a sweep gives them back
           (SELECT count(*) FROM {s}.member m WHERE m.until >= x.now) AS workers,
           EXISTS (SELECT 1 FROM {s}.pause p WHERE p.until = 0 OR p.until > x.now) AS paused,
           pg_stat_get_dead_tuples('{q}.ready'::regclass) AS dead_rows              -- many, for long: `pit doctor`
    FROM (SELECT extract(epoch FROM clock_timestamp())::float8 AS now) x;
DO $$ DECLARE had record; BEGIN
    FOR had IN SELECT grantee, privilege_type FROM information_schema.role_table_grants
        WHERE table_schema = '{t}' AND table_name = 'waiting' AND grantee NOT IN ('PUBLIC', current_user) LOOP
        EXECUTE format('GRANT %s ON {q}.floor TO %I', had.privilege_type, had.grantee);
        EXECUTE format('GRANT SELECT ON {q}.stats TO %I', had.grantee);
    END LOOP;
END $$;
