"""Telling agents of the queue: what `pit setup` writes into a project, and how it is taken out again.

    text_edits      a marked block, one JSON entry, a whole file, each without touching what others wrote. Pure
    agent_files     what each agent is given, as data
    plan            what is to be done, decided before anything is; the project's files, read and written atomically;
                    whether the agent lists our server

What others wrote stays as it is, byte for byte; taking out what was put in gives back what was there.
"""
