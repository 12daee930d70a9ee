SELECT {s}.renew(%(held)s::jsonb, %(lease)s, %(now)s)
