SELECT t.relname FROM pg_stat_user_tables t
WHERE t.schemaname = %(schema)s AND t.relname = ANY (%(hot)s) AND t.n_dead_tup > %(dead)s
