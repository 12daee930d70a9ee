INSERT INTO {s}.meta (version, serves, space, system)
SELECT {version}, {serves}, substr(md5(random()::text || clock_timestamp()), 1, 12), c.system_identifier::text
FROM pg_control_system() c
    ON CONFLICT (one) DO UPDATE SET version = excluded.version, serves = excluded.serves;
