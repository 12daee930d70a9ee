-- Who may do what with the queue in schema {s}. Run it as the user who made the queue, or as a superuser; it can be
-- repeated, and should be after `pit init` has brought the queue up to date. Then give each login what it needs:
--     GRANT {worker} TO the_login;
--   {owner}   brings the queue up to date and changes its settings
--   {worker}  puts, claims, finishes, locks, sweeps; does not change settings
--   {reader}  only looks
BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;
DO $$ DECLARE name text; BEGIN
    FOREACH name IN ARRAY ARRAY['{owner_text}', '{worker_text}', '{reader_text}'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN EXECUTE format('CREATE ROLE %I NOLOGIN', name); END IF;
    END LOOP;
END $$;
REVOKE ALL ON SCHEMA {s} FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA {s} FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA {s} FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {s} FROM PUBLIC;
GRANT USAGE ON SCHEMA {s} TO {worker}, {reader};
GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO {worker}, {reader};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {s} TO {worker}, {reader};
GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {s} TO {worker};
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {s} TO {worker};
REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON {s}.meta FROM {worker}, {reader};
-- Sweeps clean dead rows away at once where the server lets others than the owner do so.
DO $$ BEGIN
    IF current_setting('server_version_num')::int >= 170000 THEN
        EXECUTE 'GRANT MAINTAIN ON ALL TABLES IN SCHEMA {q} TO {worker}';
    END IF;
END $$;
GRANT ALL ON SCHEMA {s} TO {owner};
GRANT ALL ON ALL TABLES IN SCHEMA {s} TO {owner};
GRANT ALL ON ALL SEQUENCES IN SCHEMA {s} TO {owner};
GRANT ALL ON ALL FUNCTIONS IN SCHEMA {s} TO {owner};
-- What changes tables must own them.
DO $$ DECLARE thing record; BEGIN
    FOR thing IN SELECT oid::regclass AS name, relkind FROM pg_class
        WHERE relnamespace = '{q}'::regnamespace AND relkind IN ('r', 'v') LOOP
        EXECUTE format('ALTER %s %s OWNER TO {owner}', CASE thing.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, thing.name);
    END LOOP;
    FOR thing IN SELECT c.oid::regclass AS name FROM pg_class c WHERE c.relnamespace = '{q}'::regnamespace AND c.relkind = 'S'
        AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('a', 'i')) LOOP
        EXECUTE format('ALTER SEQUENCE %s OWNER TO {owner}', thing.name);
    END LOOP;
    FOR thing IN SELECT oid::regprocedure AS name FROM pg_proc WHERE pronamespace = '{q}'::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO {owner}', thing.name);
    END LOOP;
    FOR thing IN SELECT t.oid::regtype AS name FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid
        WHERE t.typnamespace = '{q}'::regnamespace AND c.relkind = 'c' LOOP
        EXECUTE format('ALTER TYPE %s OWNER TO {owner}', thing.name);
    END LOOP;
END $$;
ALTER SCHEMA {s} OWNER TO {owner};
COMMIT;
