"""run_code: the process a body runs in, the `gm` object inside it, budgets and background runs.

What the worker uses (this file imports nothing, because the bodies' processes import it too):

    from gm.body.host import BodyHost, BodyJob        # all bodies of a worker
    from gm.body.result import BodyResult             # .as_text() for a model, .as_json() for a program
    from gm.body.running import VerbCall              # what `call` is given
    from gm.body.platform import open_bodies          # the host and the ProcessStarter of this system

    async with open_bodies(registry) as (host, starter):          # once, in the worker's main thread
        result = await host.run(
            code, run=run, cause=action_seq, call=call, lang=lang, timeout_ms=timeout_ms,
            background_after=None if has_progress_token else BACKGROUND_AFTER_S, report=report,
        )

`call` is `async def call(c: VerbCall) -> Any`: it runs the verb `c.verb` with the JSON arguments `c.arguments` in a
context whose cause is `c.cause` (the body's code-start) and returns its JSON result or raises GmError. The events
code-start, code-call and code-end are written by the host through `run.record`. Other entries: `host.jobs()`,
`host.job(name)`, `host.stop(name)`, `host.stop_all(background_only=True)`, `host.to_background(action_seq)` for a call
that was given up, `host.verbs_changed()`.

Modules of the worker: `host`, `running`, `result`, `output`, `table`, `channel`, `platform`, and the three ways to a
process: `forkbody` over `forkclient` (Linux), `spares` (elsewhere), `javascript`. Modules of the bodies' processes,
standard library only: `main`, `forkserver`, `forked`, `spare`, `child`, `binding`, `source`, `link`, `limits`, `tags`.
"""
