"""The command line: talks to people and programs, knows everything below, decides nothing.

How a verb is made, in three places:

1. A row in `table.VERBS`: name, aliases, one-line summary, group, and the module that has it. Only the
   invoked verb's module is imported, so the row is all that the other verbs cost.
2. In that module, an entry in its `VERBS`: the verb's name, a function that adds its arguments, and one
   that runs it:

       def _claim_arguments(parser: ArgumentParser) -> None:
           parser.description = "..."
           parser.epilog = example("pit claim --lease 1h")       # every verb's help has an example
           parser.add_argument("id", nargs="?")
           worker_option(parser)

       def _claim(args: Namespace, context: Context) -> Reply:
           claims = context.queue.claim(context.worker(args), ...)
           return Reply(data={...}, text=lambda: "...")

       VERBS: Handlers = {"claim": (_claim_arguments, _claim)}

3. What goes wrong is raised as one of `taskpit.errors`; `main` prints it and exits with its code. What
   went right is a `Reply`: `data` for `--json`, `text` (a string, or a function that makes one) for
   people, and `exit_code` for the rare reply that is not 0. A verb that runs for long says what happens
   meanwhile with `context.tell`; warnings go through `context.warn`. No verb prints by itself: everything
   on its way to a terminal is stripped of control characters in one place.

Arguments every verb has without asking: `-C DIR`, `--json`, `--help`.
"""
