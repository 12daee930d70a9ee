SELECT * FROM {s}.turn(%(ends)s::jsonb, %(wants)s::jsonb, %(again)s, %(now)s)
