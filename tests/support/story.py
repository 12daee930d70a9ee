"""The commands whose behaviour is recorded: every verb, in an order in which each has something to do.

`@3` is the third id that the queue gave, `{work}` the folder of the test. A line that begins with `=` writes a file in
the queue, one that begins with `?` records the visible files or the changelog.
"""

from __future__ import annotations

#: The verbs that plain `pit` lists. What they print is recorded as text, too.
EVERYDAY = (
    *("init", "add", "status", "list", "show", "why", "board", "report", "claim", "done"),
    *("answer", "review", "edit", "retry", "cancel", "undo", "work"),
)

STORY = r"""
init . --layout {layout}
init . --layout {layout}
= .taskpit/config.toml 'durability = "process"\nbackoff = "0s"'
add 'Write the parser' --check 'test 1 = 1' --priority 5 --tag code --touches 'src/*' --body 'Read one line.'
add 'Test the parser' --needs @1 --attempts 2
add 'Choose a format' --check false
add 'Write the manual' --not-before 2999-01-01T00:00:00Z --limit gpu=1
add 'Make a release' --set answer=42
add 'Too much' --parent nothing
add
add 'No such option' --nonsense
every 'mon-fri 07:00' 'Look at the alerts' --id alerts --zone Europe/Berlin
every 'sometimes' 'Never'
every
? files
status
list
list --state waiting
list --state nonsense
show @1
show nothing
why @2
board
claim
claim @1 --as other
claim @2
status
prime
renew @1 --lease 30m
renew @2
tell @1 'Use a table.'
note @1 'See also the grammar.'
done @1 --result {work}/nothing
done @1 --result {work}/result --artifact {work}/artifact
done @1
show @1
list
claim @3
done @3
fail @3 'The check is red.'
claim @3
fail @3 'The check is red.'
claim @3
fail @3 'The check is red.' --final
claim @2
release @2 --reason 'not now'
claim @2
ask @2 'Tabs or spaces?'
review
why @2
answer @2 'Spaces.'
undo
show @2
answer @2 'Tabs.'
block @5 'not before Friday'
why @5
status
unblock @5
edit @5 --priority 7 --title 'Make the release'
edit @5 --set answer=43 --needs nothing
edit @5 --needs @2
split @5 'Tag it' 'Publish it'
list
cancel @4 'not needed'
cancel @4
undo
cancel @4 'not needed'
retry @3
undo
search parser
search nothing
diff @1
log
log --limit 2
stats
report
pause lunch
claim
status
resume
sweep
sweep --dry-run
doctor
archive
lessons
lock build --ttl 30m
lock build --as other
lock
lock build --release
trust
trust --yes
setup agents-md --print --project {work}
crew up
token add builder --verb work --tag code
token list
token revoke builder
hook session-start
notify
mcp nonsense
serve --port nonsense
attach
pipe make orchestrator agent-a
roles
demo
bench nonsense
completion nonsense
task start @1-T1
pivot start WI-005 --reason 'Another way'
pivot finish WI-005 --summary 'As it was'
trace @1
work --until empty
work --max-tasks 1 -- true
work --max-tasks 1 -- true
work --until empty -- true
list --state done
export
import {work}/tasks.jsonl
import {work}/plan.md
import {work}/nothing
convert {work}/other --layout pit
list
nonsense
-C {work}/nowhere list
help
status
report
? files
? changelog
"""
