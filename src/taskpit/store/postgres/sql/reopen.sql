SELECT answers, rings FROM {s}.reopen(%(items)s::jsonb, %(again)s, %(now)s)
