"""From files to a branch: what an agent changed is one commit, checked, reviewed and landed. Done means landed.

    git.py         every git call, with an environment made from nothing
    settings.py    what of the configuration of the person's repository counts, and what could start a program
    repository.py  the person's repository, ours beside it, clones; bringing a branch in and back out
    line.py        what has landed on a branch and the person's branch: how both come together
    values.py      the values: how work lands, what was handed in
    candidate.py   from files to a tree, and what a person should see in it
    clones.py      places to work: the clones of a queue's tasks, and what a set-up made for the next one
    pipe.py        the steps of one task, in their order: workspace, candidate, check, hand-in, land, publish
    lander.py      takes what was handed in, lands it, ends the claim
    forge.py       the other way to land: a pull request, by `gh`, `glab` or a command template
    review.py      what waits for a person: its diff; approve, send back, take over
    reviewer.py    what a reviewer agent is told, and its verdict
    diff.py        a diff as files and rows

**Where a candidate is.** What counts is in our own repository P, by task: nothing there is written by an agent.

    refs/pit/base/<queue>/<task>    the commit its clone began with
    refs/pit/cand/<queue>/<task>    the candidate: one commit on that base, made by us from the clone's files
    refs/pit/hand/<queue>/<task>    a blob: the hand-in as JSON (`HandIn`), with all that landing needs
    refs/pit/seen/<queue>/<task>    the blob of the hand-in that was approved last
    refs/pit/fence/<queue>/<task>   a blob: the claim of the worker that may land it now
    refs/pit/land/<queue>/<task>    the commit that lands it; it *has* landed once this is in the line
    refs/pit/pushed/<queue>/<task>  a blob: the commits of ours that its branch at the remote may have
    refs/pit/line/<branch>          what has landed on a branch
    refs/pit/remote/<branch>        the same at the remote, as last seen

In the queue a handed-in task is ready and held: `hold` begins with `policy.LANDING`, `REVIEW` or `PULL`, and
`extra["candidate"]` tells people and other machines its commit, branch, size and host. That is all a store must
carry, so it is the same in every layout and in a database. Whoever has a task's clone and P goes on from there
without the agent: `Pipe.hand_in_of(task_id)` reads the hand-in, `Pipe.land(claim)` gives the outcome to end a
claim with, `review.approve`, `review.send_back` and `review.diff` are what surfaces call.
"""
