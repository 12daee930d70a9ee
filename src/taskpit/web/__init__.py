"""The board in the browser. Knows everything below; the command line starts it. Needs `taskpit[web]`.

serve    a socket, a token, a server             app      which address means what; actions, streams, all queues
shared   one board, followed for all pages       pages    the board, a task, its change, what was found
crew     agents, plots, numbers                  html     HTML from values, Markdown, source text
charts   where the lines of plots and of a task's graph stand; templates draw them
"""
