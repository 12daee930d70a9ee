-- Settings of all functions, repeated with every version.
-- A plan that a session made while the tables were small is kept when they have grown: a scan of four rows becomes one of a
-- million. So the hot verbs are planned for large tables from the first day, and join nothing: each table is read by its key.
-- Names are looked up among the server's own functions only: another login's function would run as the worker.
DO $$
DECLARE verb record; setting text;
BEGIN
    FOR verb IN SELECT p.oid::regprocedure::text AS name, p.proname IN (
            'put', 'put_one', 'put_plain', 'claim', 'claim_one', 'finish', 'renew', 'turn', 'turn_one', 'reopen', 'places') AS hot
        FROM pg_proc p WHERE p.pronamespace = '{q}'::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', verb.name);
        IF verb.hot THEN
            FOREACH setting IN ARRAY ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin', 'jit'] LOOP
                EXECUTE format('ALTER FUNCTION %s SET %s = off', verb.name, setting);
            END LOOP;
            EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', verb.name);
            EXECUTE format('ALTER FUNCTION %s SET lock_timeout = %L', verb.name, '5s');  -- it is undone then, and repeated
        END IF;
    END LOOP;
END $$;
