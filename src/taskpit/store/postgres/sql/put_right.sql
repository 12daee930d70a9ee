SELECT id, kind FROM {s}.put_right(%(items)s::jsonb, %(now)s)
