"""The terminal board: what is where, live, and the keys to change it.

Needs Textual (`pip install 'taskpit[tui]'`); everything it knows of the queue comes through `queue_access`.

    app            the screen of one queue
    queues         every queue of this user, on a screen of its own
    panel          detail, log, changelog and crew, below the columns
    column         one column of slips, drawn line by line as far as it is seen
    dialogs        what is asked before something is done, and a change that waits for review
    drawing        what slips, bars and empty columns look like, and the colours. Pure
    keys           which keys there are. Pure
    queue_access   the queue and its board, asked from threads one at a time. Knows no screen
"""
