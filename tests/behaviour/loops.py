"""The event loops the behaviour tests run on: asyncio, uvloop, and asyncio with tasks that begin at once."""

import asyncio
import sys

import uvloop


def eager_loop():
    """A loop whose tasks run up to their first suspension before `create_task` returns."""
    loop = asyncio.new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory if sys.version_info >= (3, 12) else _begin_at_once)
    return loop


def _begin_at_once(loop, coroutine, **options):
    """What `asyncio.eager_task_factory` does, on Python 3.11: the first step is made instead of scheduled."""
    if not loop.is_running():
        return asyncio.Task(coroutine, loop=loop, **options)
    scheduled = []
    loop.call_soon = lambda callback, *arguments, context=None: scheduled.append((context, callback, *arguments))
    try:
        task = asyncio.tasks._PyTask(coroutine, loop=loop, **options)
    finally:
        del loop.call_soon
    [(context, *step)] = scheduled
    outer = asyncio.current_task(loop)
    if outer:
        asyncio.tasks._leave_task(loop, outer)
    try:
        context.run(*step)
    finally:
        if outer:
            asyncio.tasks._enter_task(loop, outer)
    return task


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop, "eager": eager_loop}
