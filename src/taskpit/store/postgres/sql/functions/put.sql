-- Put tasks of any kind.
CREATE OR REPLACE FUNCTION {s}.put(p_items jsonb, p_now float8, OUT answers text[], OUT rings boolean) LANGUAGE plpgsql AS $$
BEGIN
    answers := {s}.put_items(
        ARRAY(SELECT x FROM jsonb_populate_recordset(NULL::{s}.item, p_items) x), {s}.time_of(p_now));
    rings := 'created' = ANY (answers) AND {s}.waits();
END $$;
