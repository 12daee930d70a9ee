-- Serialize claims and ends of tasks that declare paths or limits.
CREATE OR REPLACE FUNCTION {s}.one_by_one() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM {s}.turn FOR NO KEY UPDATE;
END $$;
