WITH horizon AS (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xmin, m.era FROM {s}.meta m)
SELECT {s}.epoch(), e.era < h.era OR e.xid < h.xmin,
       e.era, e.xid::text, e.seq, e.at, e.worker, e.action, e.id, e.details, e.doc
FROM horizon h LEFT JOIN LATERAL (
    SELECT * FROM {s}.event e
    WHERE e.era < h.era OR e.xid < h.xmin OR %(all)s
    ORDER BY e.era DESC, e.xid DESC, e.seq DESC LIMIT %(limit)s) e ON true
