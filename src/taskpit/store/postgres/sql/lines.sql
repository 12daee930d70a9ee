-- Lines after a place, and whether an earlier line could still appear before each.
WITH horizon AS (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xmin, m.era FROM {s}.meta m)
SELECT {s}.epoch(), e.era < h.era OR e.xid < h.xmin,
       e.era, e.xid::text, e.seq, e.at, e.worker, e.action, e.id, e.details, e.doc
FROM horizon h LEFT JOIN LATERAL (
    SELECT * FROM {s}.event e
    WHERE (e.era, e.xid, e.seq) > (%(era)s, %(xid)s::xid8, %(seq)s)
    ORDER BY e.era, e.xid, e.seq LIMIT %(limit)s) e ON true
