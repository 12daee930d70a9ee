SELECT m.id, m.host, m.pid, m.born FROM {s}.member m WHERE m.host = %(host)s
