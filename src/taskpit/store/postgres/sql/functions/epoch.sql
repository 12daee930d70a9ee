-- Return the timeline of this server: it grows with every fail-over, so that no fence is given twice.
CREATE OR REPLACE FUNCTION {s}.epoch() RETURNS bigint LANGUAGE plpgsql VOLATILE AS
$$ BEGIN RETURN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint; END $$;
