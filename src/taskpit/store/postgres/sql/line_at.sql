SELECT {s}.epoch(), (
    SELECT e.at FROM {s}.event e WHERE e.era = %(era)s AND e.xid = %(xid)s::xid8 AND e.seq = %(seq)s)
