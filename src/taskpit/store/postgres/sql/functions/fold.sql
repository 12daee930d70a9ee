-- Fold up to 1,000 rows of the tally into one. Others that fold at the same time skip the rows of this transaction.
CREATE OR REPLACE FUNCTION {s}.fold() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH taken AS (
        DELETE FROM {s}.tally t
            WHERE t.ctid = ANY (ARRAY(SELECT x.ctid FROM {s}.tally x LIMIT 1000 FOR UPDATE SKIP LOCKED)) RETURNING t.*)
    INSERT INTO {s}.tally (open, done, failed)
        SELECT sum(t.open), sum(t.done), sum(t.failed) FROM taken t HAVING count(*) > 0;
END $$;
