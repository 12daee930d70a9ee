-- Greet a new connection. A pooler is recognized because another process answers than the one of the connection.
SELECT pg_backend_pid(), (
    SELECT max(set_config(x.name, x.value, false))
    FROM (VALUES ('statement_timeout', %(limit)s), ('lock_timeout', %(lock)s), ('search_path', 'pg_catalog, pg_temp')) x(name, value)
    WHERE pg_backend_pid() = %(pid)s AND (current_setting(x.name) = '0' OR x.name = 'search_path'))
