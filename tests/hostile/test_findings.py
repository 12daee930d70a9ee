"""What got through once, each with the tests that fail without its mend: nobody takes one of them away unnoticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
#: The findings of the first attack on this program, and the tests of each, by file and function.
FINDINGS = {
    "a task file links itself to any path": {"hostile/test_values.py": ["carried_says_only_what_bullets_cannot"]},
    "a task file runs a command that it does not show": {
        "hostile/test_values.py": ["carried_says_only_what_bullets_cannot", "a_check_that_backticks_cannot_say"]
    },
    "a value of the wrong kind stops everybody": {
        "hostile/test_values.py": ["carried_says_only_what_bullets_cannot", "a_row_that_cannot_be_is_refused"],
        "hostile/test_generator.py": ["no_file_makes_us_do_what_nobody_asked"],
        "postgres/test_roles.py": ["a_row_that_a_worker_made_stops_nobody"],
    },
    "a sweep deletes behind a linked directory": {
        "hostile/test_links.py": ["a_linked_directory_is_refused", "a_control_that_follows_links_is_seen"]
    },
    "a link makes a stranger's folder one's own": {
        "trust/test_verb.py": ["whose_it_is_is_judged_by_the_name_itself"],
        "permissions/test_users.py": ["a_strangers_queue_is_not_found_by_chance"],
    },
    "a clone runs and connects unasked": {
        "trust/test_clone.py": [
            "nothing_of_a_clone_runs",
            "an_address_is_not_connected_to",
            "a_program_that_the_folder",
        ]
    },
    "a run directory's files are followed": {
        "hostile/test_links.py": ["whatever_an_agent_leaves_in_its_run_directory", "a_pool_publishes_nothing"]
    },
    "another local server receives the web token": {
        "web/test_browser.py": ["another_local_server_receives_nothing_it_can_use"],
        "guard/test_guard.py": ["a_cookie_alone_shows_nothing", "a_cookie_alone_changes_nothing"],
    },
    "an agent says done, for itself or for another": {
        "worker/test_says_done.py": ["no_way_around_leads_to_a_done", "another_workers_claim_is_ended_only"],
        "doctor/test_edited.py": ["an_edit_in_its_place_is_told"],
    },
    "a cost below zero, or without end": {
        "hostile/test_values.py": ["what_was_spent_never_comes_back", "a_cost_without_end"]
    },
    "a session id that is an option": {"worker/test_fence.py": ["no_session", "sessions_and_models"]},
    "an allowed check with a shell operator": {"worker/test_fence.py": ["which_checks_are_allowed"]},
    "another's plan runs in one's supervisor": {
        "trust/test_clone.py": ["a_plan_and_a_note_that_came_along", "a_supervisor_does_not_follow_another_hand"]
    },
    "a child with a session of its own outlives its run": {
        "worker/test_fence.py": ["what_escapes_its_group_ends_with_the_command", "what_a_check_starts_ends_with_it"]
    },
    "secrets in command lines, errors and environments": {
        "web/test_serve.py": ["a_browser_is_not_given_the_token"],
        "postgres/test_roles.py": ["no_message_has_a_password_in_it"],
        "worker/test_fence.py": ["an_agent_sees_what_is_on_the_list", "a_command_does_not_see_our_token"],
    },
    "waiting claims over MCP delay everybody": {"mcp_server/test_refusals.py": ["those_who_wait_for_work"]},
    "brackets in YAML cost minutes": {"hostile/test_values.py": ["brackets_beyond_reason"]},
    "half-open requests keep everybody out": {"web/test_attacks.py": ["a_thousand_who_dawdle"]},
    "an id tells whether a file exists": {
        "mcp_server/test_refusals.py": ["a_parent_tells_nothing_of_files"],
        "hostile/test_values.py": ["asking_for_an_id_tells_nothing", "a_note_is_of_one_worker"],
    },
    "a database names a path, or a command": {
        "postgres/test_roles.py": ["a_space_that_is_a_path", "what_the_database_says_is_not_run", "only_the_owner"]
    },
    "a message obeys a terminal, a log leads elsewhere": {
        "hostile/test_links.py": ["a_message_obeys_no_terminal", "a_log_that_a_result_names"]
    },
}


@pytest.mark.parametrize("finding", FINDINGS)
def test_every_finding_has_its_tests(finding):
    assert len(FINDINGS) == 21
    for file, names in FINDINGS[finding].items():
        text = (TESTS / file).read_text(encoding="utf-8")
        for name in names:
            assert re.search(rf"^def test_{name}", text, re.MULTILINE), (file, name)
