-- Open tasks are ready or claimed. No row of a ready task is read.
SELECT coalesce(sum(x.open), 0)::bigint, coalesce(sum(x.done), 0)::bigint, coalesce(sum(x.failed), 0)::bigint,
       (SELECT count(*) FROM {s}.lease)
FROM {s}.tally x
