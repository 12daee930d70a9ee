SELECT to_regclass(%(table)s) IS NOT NULL
