"""The board in the browser. Knows everything below; the command line starts it. Needs `taskpit[web]`.

serve    a socket, a token, a server             app      which address means what, also over all queues
shared   one board, followed for all pages       pages    the board, a task, its change, what was found
crew     agents, plots, numbers                  actions  what people do
streams  events as they happen                   html     HTML from values, Markdown, source text
charts   plots and the graph of a task, as SVG
"""
