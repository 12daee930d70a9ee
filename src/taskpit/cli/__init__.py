"""The command line: talks to people and programs, knows everything below, decides nothing.

How a verb is made, in three places:

1. A row in `verbs.VERBS`: name, aliases, one-line summary, group, and the module that has it. Only the
   invoked verb's module is imported, so the row is all that the other verbs cost.
2. In that module, a function of its name with an underscore before it, its arguments in the decorator, its help in
   the docstring, of which the last paragraph is examples:

       @takes(arg("ID", "this one and no other", nargs="?"), arg("--lease 30m", "how long it is yours"), AS)
       def _claim(args: Args, context: Context) -> Reply:
           '''Take the next task, or the named one.

           pit claim --lease 1h
           '''
           claims = context.queue.claim(context.worker(args), ...)
           return Reply(data={...}, text=lambda: "...")

3. What goes wrong is raised as one of `taskpit.errors`; `main` prints it and exits with its code. What
   went right is a `Reply`: `data` for `--json`, `text` (a string, or a function that makes one) for
   people, and `exit_code` for the rare reply that is not 0. A verb that runs for long says what happens
   meanwhile with `context.tell`; warnings go through `context.warn`. No verb prints by itself: everything
   on its way to a terminal is stripped of control characters in one place.

Arguments every verb has without asking: `-C DIR`, `--json`, `--help`.
"""
