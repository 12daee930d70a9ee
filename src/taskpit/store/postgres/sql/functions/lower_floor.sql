-- A transaction that makes a task ready holds this lock until it commits. `raise_floor` takes it alone, so no task becomes
-- ready before a floor that is being raised. Only logins with rights on the table can hold it.
CREATE OR REPLACE FUNCTION {s}.lower_floor(p_big boolean, p_key bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE {s}.floor IN ROW EXCLUSIVE MODE;
    UPDATE {s}.floor f SET key = p_key WHERE f.big = p_big AND f.key > p_key;
END $$;
