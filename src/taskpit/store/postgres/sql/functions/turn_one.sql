-- The same for one plain end and one claim of any task: the usual turn of a worker.
CREATE OR REPLACE FUNCTION {s}.turn_one(p_id text, p_fence text, p_mark text, p_seen float8, p_verdict text, p_result text,
    p_attempt text, p_action text, p_details text, p_worker text, p_bigs boolean[], p_lease float8, p_call text,
    p_member bigint, p_limits jsonb, p_again boolean, p_now float8,
    OUT answers text, OUT rings boolean, OUT id text, OUT doc text, OUT fence text, OUT since float8) LANGUAGE plpgsql AS $$
DECLARE w_commit text := current_setting('synchronous_commit');
BEGIN
    answers := {s}.finish_one(p_id, p_fence, p_mark, p_seen, p_verdict, p_result, p_attempt, p_action, p_details, p_again,
                           {s}.time_of(p_now));
    rings := answers = 'woke' AND {s}.waits();
    SELECT c.* INTO id, doc, fence, since
        FROM {s}.claim_one(p_worker, p_bigs, p_lease, p_call, p_member, p_limits, p_again, p_now) c;
    PERFORM set_config('synchronous_commit', w_commit, true);
END $$;
