"""The board in the browser. Knows everything below; the command line starts it. Needs `taskpit[web]`.

serve    a socket, a token, a server       app      which address means what
hub      one board, followed for all       pages    what is shown        actions  what people do
past     the changelog, kept at hand       tail     a log that grows     metrics  numbers for Prometheus
paper    HTML from values                  markdown, charts, graph       pieces of it
"""
