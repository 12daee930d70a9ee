"""The terminal board: what is where, live, and the keys to change it.

Needs Textual (`pip install 'taskpit[tui]'`); everything it knows of the queue comes through `desk`.

    looking   the screen: what is where, live
    seeking   the same with filter and search
    app       the same with what people do to tasks
    queues    every queue of this user, on a screen of its own
    panel     detail, log, changelog and crew, below the columns
    bars      what is said in single lines at the edges. Pure
    keys      which keys there are. Pure
    themes    the colours
    column    one column of slips, drawn line by line as far as it is seen
    lines     what a slip looks like. Pure
    detail    all about one task
    dialogs   what is asked before something is done
    verdict   a change that waits for review
    acts      what a person can do to a task. Knows queues, no screen
    desk      the queue and its board, asked from threads one at a time. Knows no screen
"""
