INSERT INTO {s}.waiter VALUES (%(sleeper)s, clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (sleeper) DO UPDATE SET until = excluded.until
