-- This does not wait for the disk: a note that a crash loses makes the gap longer, never shorter.
SELECT set_config('synchronous_commit', 'off', true), {s}.note_contact(%(now)s)
