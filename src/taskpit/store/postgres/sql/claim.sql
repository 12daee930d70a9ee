SELECT * FROM {s}.claim(%(want)s::jsonb, %(again)s, %(now)s)
