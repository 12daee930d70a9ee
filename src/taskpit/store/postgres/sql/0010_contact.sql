-- Version 12: contact with the server, so that an outage without a restart takes no claim from its holder.

CREATE TABLE {s}.contact (            -- one row: when a pool, gateway or sweep last reached the server
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    at float8 NOT NULL,
    epoch bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE TABLE {s}.outage (             -- gaps in it; a later gap removes the shorter ones before it
    ended float8 NOT NULL,
    seconds float8 NOT NULL
);
-- After an outage a lease, member or lock that expired in it lasts until this time; 0: it did not expire in one.
ALTER TABLE {s}.lease ADD COLUMN graced float8 NOT NULL DEFAULT 0;
ALTER TABLE {s}.member ADD COLUMN graced float8 NOT NULL DEFAULT 0;
ALTER TABLE {s}.lock ADD COLUMN graced float8 NOT NULL DEFAULT 0;
DO $$ DECLARE had record; fresh text; BEGIN
    FOR had IN SELECT grantee, privilege_type FROM information_schema.role_table_grants
        WHERE table_schema = '{t}' AND table_name = 'waiting' AND grantee NOT IN ('PUBLIC', current_user) LOOP
        FOREACH fresh IN ARRAY ARRAY['contact', 'outage'] LOOP
            EXECUTE format('GRANT %s ON {q}.%I TO %I', had.privilege_type, fresh, had.grantee);
        END LOOP;
    END LOOP;
END $$;
DROP FUNCTION IF EXISTS {s}.up_since(float8);
DROP TABLE {s}.life;
