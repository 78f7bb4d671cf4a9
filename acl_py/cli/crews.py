"""Where the runs of a command take place: options that several commands have."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from acl_py.late_imports import import_late
from acl_py.many.crew import Crew

OF_CREWS = "Many runs"
_ANSWER_S, _WORKER_S = 30, 300  # how long an answer and the first worker may take

Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="How many runs take place at the same time. What comes out is the same for any number.",
        rich_help_panel=OF_CREWS,
    ),
]
Dask = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Run on the Dask cluster of this scheduler, such as tcp://10.0.0.1:8786, or of this scheduler file.",
        show_default=False,
        rich_help_panel=OF_CREWS,
    ),
]


class CrewError(ValueError):
    """The options name no workers: they contradict one another, or a cluster does not answer."""


@contextmanager
def crew_of(workers: int | None, dask: str, files: Sequence[Path] = ()) -> Iterator[Crew]:
    """Give the crew that the options name; without any, one process for each processor.

    A cluster gets the modules in *files*, which its machines may not have.

    Raises:
        CrewError: Both are given, the package distributed is missing, or no scheduler answers.
    """
    if not dask:
        with Crew(workers=workers) as crew:
            yield crew
        return
    if workers is not None:
        raise CrewError("--workers and --dask: a cluster has its own workers, so give one of the two")
    try:
        distributed = import_late("distributed")
    except ImportError as error:
        raise CrewError("--dask needs the package distributed: pip install 'acl_py[dask]'") from error
    with _client(distributed, dask) as client, Crew(client.get_executor(pure=False)) as crew:
        for file in files:
            client.upload_file(str(file))
        yield crew


def _client(distributed: Any, dask: str) -> Any:
    """Return a client of a cluster that has workers."""
    if dask.endswith(".json") and not Path(dask).is_file():
        raise CrewError(f"--dask {dask}: there is no such file; `dask scheduler --scheduler-file {dask}` writes it")
    where = {"scheduler_file": dask} if dask.endswith(".json") else {"address": dask}
    try:
        client = distributed.Client(**where, timeout=f"{_ANSWER_S} s")
    except (OSError, ValueError) as error:
        raise CrewError(
            f"--dask {dask}: no scheduler answers there; is it the address that `dask scheduler` prints?"
        ) from error
    try:
        client.wait_for_workers(1, timeout=_WORKER_S)
    except TimeoutError as error:
        client.close()
        raise CrewError(f"--dask {dask}: the scheduler has no worker yet, after {_WORKER_S} s: begin some") from error
    return client


@contextmanager
def crew_of_processes(workers: int | None, dask: str) -> Iterator[Crew]:
    """Give the crew that the options name, for runs that begin processes of their own; without any, one run at a time.

    Raises:
        CrewError: As `crew_of`.
    """
    if dask or workers is None or workers == 1:
        with crew_of(workers if dask else 1, dask) as crew:
            yield crew
        return
    threads = ThreadPoolExecutor(workers)  # they only wait
    try:
        with Crew(threads, ahead=2 * workers) as crew:
            yield crew
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
