"""Who does the rows of a sweep: processes of this machine, or the workers of a Dask cluster.

Either hands rows over as they end, in any order, and goes on when a worker dies: another one does its row,
`MOST_TRIES` times, and then has that as its error.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import Any

from lowtide.api.sweeps.rows import COLUMNS, Task, row_of
from lowtide.errors import InputError, MissingExtraError
from lowtide.stop import Interrupt, noting

MOST_TRIES = 3
AHEAD = 4
"""Rows that are handed to the pool for each process, so that none waits."""

Done = tuple[Task, dict[str, Any]]


def in_turn(tasks: Sequence[Task]) -> Iterator[Done]:
    """Row by row, in this process, until Ctrl-C: a row that it ended is none."""
    for task in tasks:
        yield task, _uninterrupted(task)


def in_processes(tasks: Sequence[Task], jobs: int) -> Iterator[Done]:
    """In so many processes, which are started anew when one of them dies."""
    waiting = deque(tasks)
    tries: dict[str, int] = {}
    while waiting:
        others = set(multiprocessing.active_children())
        # What was running when a worker died may have been the reason, and is done by itself.
        alone = waiting[0].key in tries
        batch = deque([waiting.popleft()]) if alone else waiting
        pool = ProcessPoolExecutor(1 if alone else jobs, multiprocessing.get_context("spawn"), _start)
        running: dict[Future[dict[str, Any]], Task] = {}
        try:
            while batch or running:
                while batch and len(running) < AHEAD * jobs:
                    task = batch.popleft()
                    running[pool.submit(row_of, task)] = task
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(ended, key=lambda f: isinstance(f.exception(), BrokenProcessPool)):
                    row = future.result()
                    yield running.pop(future), row
        except BrokenProcessPool:
            for task in reversed(running.values()):
                tries[task.key] = tries.get(task.key, 0) + 1
                if tries[task.key] > MOST_TRIES:
                    yield task, _lost(task)
                else:
                    waiting.appendleft(task)
        except BaseException:  # Ctrl-C, or the rest is not wanted: what is being planned is not waited for
            _end(pool, set(multiprocessing.active_children()) - others)
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def in_cluster(tasks: Sequence[Task], scheduler: str) -> Iterator[Done]:
    """By the workers of a Dask scheduler, which see the models under the same paths. Raises `MissingExtraError`: Dask's
    `distributed` is not installed. Raises `InputError`: there is no scheduler at that address."""
    try:
        from distributed import Client, as_completed  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtraError("dask[distributed]", "sweep", "--scheduler") from None
    try:
        client = Client(scheduler, timeout=10, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers: {error}; start one with `dask scheduler`", scheduler) from None
    with client:
        futures = {client.submit(row_of, task, pure=False, retries=MOST_TRIES): task for task in tasks}
        for future in as_completed(list(futures), loop=client.loop):
            task = futures.pop(future)
            yield task, (future.result() if future.status == "finished" else _lost(task))
            future.release()


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _uninterrupted(task: Task) -> dict[str, Any]:
    """A row of which Ctrl-C ended no part. Raises `KeyboardInterrupt` if it did, where `plan` ends with its best."""
    interrupt = Interrupt()
    with noting(interrupt):
        row = row_of(task)
    if interrupt.seen or row["stopped"] == "interrupt":
        raise KeyboardInterrupt
    return row


def _end(pool: ProcessPoolExecutor, processes: set[BaseProcess]) -> None:
    """Terminate the processes of a pool; a second Ctrl-C meanwhile says nothing new."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    try:
        for process in processes:
            process.terminate()
        pool.shutdown(cancel_futures=True)
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _start() -> None:
    """A worker leaves Ctrl-C to the process that started it, and ends with that, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(2_000_000)  # as in the command itself
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _lost(task: Task) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"model": task.model, "target": task.target, "options": task.spelt_options, "status": "error"}
    text = f"the process that planned it ended {MOST_TRIES + 1} times; is there too little memory?"
    return row | {"exit_status": 1, "error": text, "seconds": 0.0}
