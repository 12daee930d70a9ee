SELECT answers, rings FROM {s}.finish(%(ends)s::jsonb, %(again)s, %(now)s)
