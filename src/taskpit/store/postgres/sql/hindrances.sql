SELECT 'old transaction', 'process ' || a.pid, 'open since ' || to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS')
    FROM pg_stat_activity a WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
         AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
         AND a.xact_start < clock_timestamp() - %(old)s * interval '1 second'
UNION ALL
SELECT 'old transaction', 'prepared transaction ' || p.gid, 'since ' || to_char(p.prepared, 'YYYY-MM-DD HH24:MI:SS')
    FROM pg_prepared_xacts p WHERE p.prepared < clock_timestamp() - %(old)s * interval '1 second'
UNION ALL
SELECT 'old transaction', 'replication slot ' || r.slot_name, 'it is not in use'
    FROM pg_replication_slots r WHERE NOT r.active AND r.xmin IS NOT NULL
UNION ALL
SELECT 'dead rows', t.relname, t.n_dead_tup || ' in a table that every claim reads'
    FROM pg_stat_user_tables t
    WHERE t.schemaname = %(schema)s AND t.relname = ANY (%(hot)s) AND t.n_dead_tup > %(many)s
UNION ALL
SELECT 'no autovacuum', 'the server', 'autovacuum is off' WHERE current_setting('autovacuum') <> 'on'
UNION ALL
SELECT 'no autovacuum', c.relname, 'autovacuum_enabled is off for this table'
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_catalog.unnest(c.reloptions) o(word)
    WHERE n.nspname = %(schema)s AND o.word IN ('autovacuum_enabled=false', 'autovacuum_enabled=off')
