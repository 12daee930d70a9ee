SELECT p.reason, p.until FROM {s}.pause p WHERE p.until = 0 OR p.until > %(at)s
