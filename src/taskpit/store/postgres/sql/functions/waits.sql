-- Whether a process sleeps that must be notified after this transaction.
CREATE OR REPLACE FUNCTION {s}.waits() RETURNS boolean LANGUAGE plpgsql VOLATILE AS
$$ BEGIN RETURN EXISTS (SELECT 1 FROM {s}.waiter w WHERE w.until > clock_timestamp()); END $$;
