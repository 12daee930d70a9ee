"""The board in the browser. Knows everything below; the command line starts it. Needs `taskpit[web]`.

serve    a socket, a token, a server        app      which address means what
hub      one board, followed for all        desk     what the pages share
pages    the board, a task, what was found  crew     agents, plots, numbers
actions  what people do                     streams  what is told as it happens
overview every queue on one page, and the pages of each below it
past     the changelog, kept at hand        change   what a task's agent changed
paper    HTML from values                   markdown, colours, charts, graph, metrics  pieces of it
"""
