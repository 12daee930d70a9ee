DELETE FROM {s}.printed p WHERE p.at < {s}.time_of(%(now)s) - %(age)s
