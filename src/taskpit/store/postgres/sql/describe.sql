SELECT m.version, m.serves, m.space, m.config, extract(epoch FROM clock_timestamp())::float8, current_setting('fsync'),
       current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), current_setting('full_page_writes'),
       (SELECT c.relnamespace || '/' || d.oid FROM pg_class c, pg_database d
        WHERE c.oid = m.tableoid AND d.datname = current_database()),
       (SELECT c.system_identifier::text FROM pg_control_system() c), pg_catalog.to_jsonb(m) ->> 'system'
FROM {s}.meta m
