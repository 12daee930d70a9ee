WITH gone AS (DELETE FROM {s}.log l WHERE l.n = ANY (ARRAY(SELECT x::bigint FROM jsonb_array_elements_text(%(numbers)s::jsonb) x)) RETURNING l.*)
INSERT INTO {s}.digest
    SELECT g.n, g.worker, g.at, length(g.data),
           right(regexp_replace(convert_from(substr(g.data, greatest(length(g.data) - 399, 1)), 'LATIN1'),
                                '[^[:print:]]+', ' ', 'g'), 200)
    FROM gone g ON CONFLICT DO NOTHING
