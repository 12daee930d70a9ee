SELECT id, key FROM {s}.places(%(state)s, %(after)s, %(limit)s)
