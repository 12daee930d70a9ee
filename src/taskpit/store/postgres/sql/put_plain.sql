SELECT answers, rings FROM {s}.put_plain(%(items)s::jsonb, %(now)s)
