SELECT answers, rings FROM {s}.put(%(items)s::jsonb, %(now)s)
