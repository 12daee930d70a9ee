SELECT x.key, pg_catalog.array_agg(x.at) FROM {s}.start x WHERE x.at > %(after)s GROUP BY 1
