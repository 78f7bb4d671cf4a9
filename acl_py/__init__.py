"""acl_py: streams, events and kernels of Ascend ACL and CUDA on a simulated device, in deterministic time.

The verbs are aclrt's without the prefix, all of them coroutines. The package, from the top down; each room imports
only from those below it, and all of them may import device_model:

    cli/, __main__, pytest_plugin   the command line, and what a pytest run of `acl` scripts needs
    teaching/       what notebooks use: pictures, prices, predictions, what a card did; the notebooks' files
    explore/        programs run again and again, each time under another schedule
        explorer strategies shrinking   which schedules are tried, until one fails; the fewest deviations that fail
        scripts functions preloaded     a run of a script, in a process of its own, and of a function
        outcomes gathering              what came out of one run, and the findings of all
    tools/          what the command line calls
        sanitizing                      what the sanitizer found in a run
        compare writes                  arrays beside those of a reference; what wrote them
        demo demo_cores                 the demos; what those on cores have in common
        demo_aicore demo_flash          a kernel of AI cores, a kernel of blocks of threads
        scripts own_modules             scripts that use `acl`, and the files that they import
        swept_scripts                   the same script at many points
        kernel_sources                  the names of Ascend C that a source uses, and which are here
    advice/         which waits of a recorded run are needed, and what the program is worth without the others
        pairs lines needs               what must stay in order, the lines that wait, what loses its order without them
        steps bounds choosing texts     their edits, what these are worth, which go together, and all of it in words
    calibrate/      what calls and copies take on a machine with a card, as the values of a profile; with its own map
    compat/         other interfaces to the same runtime; each has a map of its own
        acl/                            `acl`, the vendor's Python binding
        cuda/                           the driver of CUDA, which packages load as a library
    explain/        what would make a recorded run faster, or a wrong one right
        prices whatif asking            programs run again with an edit, here or in other processes
        edits cases                     the edits, and what they change
        fixes edges rewrites            the order that a program lacks, and the program that has it
        recordings                      recordings of runs, as programs
        relisting chunking optimiser    operations over other streams, and in parts; which of that is fastest
        launched                        which steps are captured, and which launches run them
        diff assertions golden          what moved between two recordings; assertions for tests, of a saved run, too
        profiler stages                 stages of a running program, and the overlap of copies and computation
        pages                           pages with prices
    programs/       stream programs
        format documents                how they are read and checked; JSON files from anywhere
        replay player                   a program is played, call by call
        operations graph_operations     what each step calls
        objects tasks                   what the calls are about; several tasks
        portability                     one program, tried under other rules
        kernels                         what programs launch
    public          what programs import from the package
    sweeps/         one program at many points
        sweep points running            the points, and a run at one of them
        rows plots progress             the table and its figures; how far a sweep is
        store files                     what keeps the rows, and where
    running         run, simulate, open
    simulation      what a program can ask of a simulation
    causes/         why a recorded run took as long as it did
        path slack lines                the critical path, and how much longer each operation could be, by line
        findings pages                  implicit waits, and waits that order nothing; pages with both
        relation recorded_things        which operations are in order; what stands for streams, events and contexts
        captured between                which calls were captured; what hosts did between two calls
        host                            when the one host clock was busy
    recorded/       the stream program of a recording
        acts translations host_order    calls as steps, in the words of the format, and in their order
        graphs names                    what steps of captures need to know of launches; names of streams and memory
    sanitizer/      what a program gets right only by the times of one run
        watch sanitizer check           all simulations of a run; the observers, which look at one thing each
        suppressions reports            findings that a project accepts; text, JSON, SARIF, GitHub
        finding_texts                   the words of findings
        races pairs accesses shadow     accesses to the same bytes that nothing orders
        nodes                           what the nodes of a launch touch
        hosts handovers                 what tasks and threads know of one another
        lifetimes leaks                 uses after an end; what is never freed
        unwritten digests               bytes that nobody has written; sources of copies that change
        reversed_effects tearing        effects against the order of ends; effects of half of the bytes
    order/          what is certain to be over before what
        relate launches meetings        what each act orders, each launch of a graph, and calls of ranks that meet
        order signals                   the relation of streams and hosts; what streams signal
        actors clocks                   streams and hosts as actors; how far each has come
        things                          streams, events and contexts of a recording
    trace/          the recorder, and the views of what it recorded
        rows/                           what is stored: rows, their columns, the recorder, saved recordings
        views/                          charts and reports as text, figures, Chrome traces, formats of other profilers
        page/                           the page for a browser
    card/           a real card in place of the model
        opening cuda/ npu/              from options to a card; what only one vendor has, with maps of their own
        bridge ending runtime contexts  how tasks wait; the end of a run; what the model is asked for elsewhere
        work host_functions             which call each work makes; Python in its turn in a stream
        times words streams events memory
                                        what the host knows of work; objects of the driver
        driver clock                    what is asked of a vendor's driver; real time
    options         what a simulation is begun with
    faults/         fault rules
        texts rules checks force        rules as text; what makes them, and checks arguments; those in force
    asc cta ptx     the languages of core kernels and of thread-block kernels; kernels in PTX
    verbs/          the verbs, one module for each noun
        devices peers memory pools managed streams events records signals failures host marks
        waits                           limits of waits, and answers of queries
        copies transfers fills kernels core_kernels block_kernels card_code arguments arrays callbacks costs
        ptx_kernels ptx_modules ptx_compiler captures capturing graphs task_groups communicators
        collectives collective_groups elements copy_batches
        hot launches                    what the compiled core runs of four verbs; past launches
    runtime/        the host clock, and the way into the device
        runtime host scopes calls blocking
                                        the clock, and the way in; what a task sees; how a verb begins; hosts that are
                                        threads
        injection routes findings       how fault rules strike; where a copy goes; what core kernels print
        captures pools collectives      what captures refuse; what a pool gives back; how ranks and groups are queued
        leaks                           what is never freed, or never destroyed
        folds folding fold_checks       ranks that are alike, of which one runs; whether they are
        rank_numbers containers         what tells ranks apart
    host_arrays/    arrays of the host that report their uses
        views host_view array_ranges    who gets the reports; the arrays; which bytes they cover
    findings        what is wrong with a program although it ran
    log             events of calls, operations and waits, if it is turned on
    waiting/        how a host waits, and when a wait is a hang
        bridge threads loops tasks      coroutines and the device; threads; event loops; what a task waits for
        clock real_timers browser       loops with simulated time, timers in real time, the loop of a browser
        own_hosts                       tasks with a host each
        ready interrupts                which task goes first under a schedule; signals in the middle of a call
        hang standstill deadlocks       whether anything could still wake the program; what to do about it
    schedules       what a run does where it has a choice
    wording         messages that name the functions of `acl` in place of verbs
    package_words   how programs of numba and cuda.core write them
    calls/          calls as data
        table acts                      what is known of each verb; what a call has done
        steps fields                    the steps of programs that make calls; which values their fields have
    many/           a function at many points, in processes or in an executor
        crew pools batches              where the points run, and in which order; pools of processes; tasks of Dask
    callers codes errors kernel_names parts projects ranges sites signatures whole_files late_imports
                    the ground: tasks, return codes, exceptions, parts of the sanitizer, tables of a pyproject.toml,
                    ranges of bytes, lines of the user's program, the functions of `acl`, files that are written whole
                    or not at all, imports in the middle of a program
"""

import typing

from acl_py.late_imports import import_late as _import_late
from acl_py.late_imports import late_names as _late_names
from device_model.compiled import put_in_front as _put_in_front

_put_in_front(__name__, __path__)

if typing.TYPE_CHECKING:
    from acl_py import asc as asc
    from acl_py import cta as cta
    from acl_py import ptx as ptx
    from acl_py import trace as trace
    from acl_py.public import *  # noqa: F403 - its names are those of the package
else:

    def _verbs_instead(name: str) -> str:
        if not (verbs := _import_late("acl_py.calls.table").verbs_for(name)):
            return ""
        return f"what the vendor calls so is {' or '.join(verbs)} here"

    __getattr__, __dir__ = _late_names(globals(), _verbs_instead)


def load_ipython_extension(shell: object) -> None:
    """Do what `%load_ext acl_py` asks for: put `acl` and the driver of CUDA in place in a notebook.

    Raises:
        ValueError: The environment variable ACL_PY_RUN is not what it must be.
    """
    _import_late("acl_py.compat.notebook").load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Do what `%unload_ext acl_py` asks for: print the summary, and end the session."""
    _import_late("acl_py.compat.notebook").unload(shell)


__version__ = "0.1.0"  # pyproject.toml takes it from here
