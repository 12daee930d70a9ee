"""Telling agents of the queue: what `pit setup` writes into a project, and how it is taken out again.

    blocks    a marked block in a text of somebody else's
    tree      one entry in a JSON text of somebody else's
    stamped   whole files of ours that know whether somebody changed them
    parts     what each agent is given, as data
    plan      what is to be done, decided before anything is
    place     reading and writing, atomically, in one project

What others wrote stays as it is, byte for byte; taking out what was put in gives back what was there.
"""
