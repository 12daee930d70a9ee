-- Version 9: what runs print, while they do, and files that are kept with a task.

CREATE TABLE {s}.printed (            -- pieces of the log of a claim; gone when it is kept as a log
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
DO $$ DECLARE had record; fresh text; BEGIN
    FOR had IN SELECT grantee, privilege_type FROM information_schema.role_table_grants
        WHERE table_schema = '{t}' AND table_name = 'waiting' AND grantee NOT IN ('PUBLIC', current_user) LOOP
        FOREACH fresh IN ARRAY ARRAY['printed', 'artifact'] LOOP
            EXECUTE format('GRANT %s ON {q}.%I TO %I', had.privilege_type, fresh, had.grantee);
        END LOOP;
    END LOOP;
END $$;
