"""A plain interpreter of PTX: thread by thread, with Python integers.

It shares no code with the device. A thread is a generator; it yields where it waits for others: at barriers, and at
instructions of a whole warp. Blocks run one after the other.
"""

from dataclasses import dataclass, field
from functools import partial
from itertools import product

from tests.ptx.operations import carried, operation, signed
from tests.ptx.reading import BITS, number, read

GLOBAL, SHARED, LOCAL = 1 << 40, 1 << 50, 1 << 51
GAP = 1 << 32
WARP_WIDE = ("shfl", "vote", "match", "redux")
MOST_STEPS = 20_000  # of a thread


class Memory:
    """Global memory: arrays of bytes, each at an address of its own."""

    def __init__(self):
        self.arrays = []

    def add(self, array):
        self.arrays.append(array)
        return GLOBAL + GAP * (len(self.arrays) - 1)

    def find(self, address):
        return self.arrays[(address - GLOBAL) // GAP], (address - GLOBAL) % GAP


@dataclass
class Block:
    """What the threads of a block share."""

    place: tuple
    shared: bytearray
    shared_at: dict


@dataclass
class Thread:
    """One thread: where it is, its local memory, its carry flag."""

    machine: "Machine"
    block: Block
    place: tuple
    number: int
    local: bytearray = field(default_factory=bytearray)
    carry: int = 0
    steps: int = 0


class Frame:
    """One call of a routine: its registers, its parameters, where its local variables are."""

    def __init__(self, thread, routine):
        self.thread = thread
        self.registers = dict.fromkeys(routine.bits, 0)
        self.parameters = {}
        self.local_at = {}
        for name, variable in routine.variables.items():
            if variable.space == "local":
                thread.local.extend(bytes(-len(thread.local) % variable.align))
                self.local_at[name] = len(thread.local)
                thread.local.extend(bytes(variable.nbytes))
            elif variable.space == "param":
                self.parameters[name] = bytearray(variable.nbytes)


class Exited(Exception):
    """The thread has ended inside a function."""


def launch(text, kernel, grid, block, arguments, dynamic=0):
    """Run a kernel. An argument is a bytearray, which is global memory, or the bytes of a value."""
    Machine(read(text), grid, block, dynamic).run(kernel, arguments)


class Machine:
    """Runs one launch of a kernel of a module."""

    def __init__(self, text, grid, block, dynamic):
        self.text, self.grid, self.block, self.dynamic = text, grid, block, dynamic
        self.memory = Memory()
        self.global_at = {}
        for name, variable in text.variables.items():
            if variable.space in ("global", "const"):
                data = bytearray(variable.data.ljust(variable.nbytes, b"\0"))
                self.global_at[name] = self.memory.add(data)
        self.shared_at = {}
        size = 0
        self.dynamic_names = []
        shared = [(name, each) for name, each in text.variables.items() if each.space == "shared"]
        for routine in text.routines.values():
            shared += [(name, each) for name, each in routine.variables.items() if each.space == "shared"]
        for name, variable in shared:
            if not variable.nbytes:
                self.dynamic_names.append(name)
                continue
            size += -size % variable.align
            self.shared_at[name] = size
            size += variable.nbytes
        size += -size % 16
        self.shared_at |= dict.fromkeys(self.dynamic_names, size)
        self.shared_bytes = size + dynamic
        self.code = {
            name: [Translator(self, routine, each, place).translate() for place, each in enumerate(routine.steps)]
            for name, routine in text.routines.items()
        }

    def run(self, kernel, arguments):
        routine = self.text.routines[kernel]
        parameters = {}
        for variable, given in zip(routine.parameters, arguments, strict=True):
            if isinstance(given, bytearray):
                given = self.memory.add(given).to_bytes(8, "little")
            assert len(given) == variable.nbytes, variable
            parameters[variable.name] = given
        for place in product(*map(range, reversed(self.grid))):
            self.run_block(kernel, Block(place[::-1], bytearray(self.shared_bytes), self.shared_at), parameters)

    def run_block(self, kernel, block, parameters):
        threads = {}
        for count, place in enumerate(product(*map(range, reversed(self.block)))):
            thread = Thread(self, block, place[::-1], count)
            threads[count] = self.thread(thread, kernel, parameters)
        meeting = Meeting()
        while threads:
            ready = [count for count in threads if count not in meeting.waiting]
            for count in ready:
                try:
                    answer = meeting.answers.pop(count, None)
                    while True:
                        request = threads[count].send(answer)
                        if not meeting.take(count, request):
                            break
                        answer = None
                except StopIteration:
                    del threads[count]
            if not meeting.release(set(threads)) and len(meeting.waiting) == len(threads) and threads:
                raise AssertionError(f"threads wait for ever: {meeting.waiting}")

    def thread(self, thread, kernel, parameters):
        frame = Frame(thread, self.text.routines[kernel])
        frame.parameters |= parameters
        try:
            yield from self.routine(frame, kernel)
        except Exited:
            return

    def routine(self, frame, name):
        code = self.code[name]
        registers, thread = frame.registers, frame.thread
        place = 0
        while place < len(code):
            guard, is_turned, do, waits = code[place]
            place += 1
            thread.steps += 1
            assert thread.steps < MOST_STEPS, "a loop without an end"
            if guard is not None and bool(registers[guard]) == is_turned:
                continue
            if waits:
                result = yield from do(frame)
            else:
                result = do(frame)
            if result is not None:
                place = result

    def call(self, caller, name, results, arguments):
        """Run a function; its parameters are copied in and out."""
        routine = self.text.routines[name]
        size = len(caller.thread.local)
        frame = Frame(caller.thread, routine)
        for variable, given in zip(routine.parameters, arguments, strict=True):
            frame.parameters[variable.name] = bytearray(caller.parameters[given])
        for variable in routine.results:
            frame.parameters[variable.name] = bytearray(variable.nbytes)
        yield from self.routine(frame, name)
        for variable, given in zip(routine.results, results, strict=True):
            caller.parameters[given][:] = frame.parameters[variable.name]
        del caller.thread.local[size:]


class Meeting:
    """Threads of a block that wait for one another: what each asks for, and what it is told."""

    def __init__(self):
        self.waiting = {}
        self.answers = {}
        self.arrived = {}  # at each barrier, without a wait

    def take(self, count, request):
        """Note what a thread asks for; return whether it need not wait."""
        if request[0] == "arrive":
            self.arrived[request[1]] = self.arrived.get(request[1], 0) + 1
            return True
        self.waiting[count] = request
        return False

    def release(self, alive):
        """Let those go whose others are all there; return whether there are any."""
        released = {}
        for count, request in self.waiting.items():
            if count in released:
                continue
            if request[0] == "bar":
                _, barrier, needed, *_ = request
                here = [each for each, other in self.waiting.items() if other[:2] == ("bar", barrier)]
                if len(here) + self.arrived.get(barrier, 0) == (len(alive) if needed is None else needed):
                    self.arrived.pop(barrier, None)
                    given = [self.waiting[each][4] for each in here]
                    for each in here:
                        released[each] = self.reduced(self.waiting[each][3], given)
            else:
                _, place, mask, *_ = request
                named = {count // 32 * 32 + lane for lane in range(32) if mask >> lane & 1} & alive
                here = [each for each in named if self.waiting.get(each, ())[:3] == ("warp", place, mask)]
                assert count in named, "a lane that its mask does not name"
                if len(here) == len(named):
                    lanes = {each % 32: self.waiting[each][3:] for each in sorted(here)}
                    for each in here:
                        released[each] = warp_wide(each % 32, lanes, mask)
        for count in released:
            del self.waiting[count]
        self.answers |= released
        return bool(released)

    @staticmethod
    def reduced(operator, given):
        if operator is None:
            return None
        return {"popc": sum(given), "and": int(all(given)), "or": int(any(given))}[operator]


def warp_wide(lane, lanes, mask):
    """Return what an instruction of a warp gives to *lane*: one or two results."""
    words, *own = lanes[lane]
    values = {each: given[0] for each, (_, *given) in lanes.items()}
    match words[0]:
        case "shfl":
            _, by, limits = own
            by, clamp, segment = by & 31, limits & 31, limits >> 8 & 31
            last = lane & segment | clamp & ~segment & 31
            match words[2]:
                case "up":
                    source, is_in = lane - by, lane - by >= last
                case "down":
                    source, is_in = lane + by, lane + by <= last
                case "bfly":
                    source, is_in = lane ^ by, lane ^ by <= last
                case "idx":
                    source = lane & segment | by & ~segment & 31
                    is_in = source <= last
            source = source if is_in else lane
            assert source in values, "a shuffle from a lane that is not there"
            return values[source], int(is_in)
        case "vote":
            match words[2]:
                case "ballot":
                    return sum(1 << each for each in values if values[each]), 0
                case "all":
                    return int(all(values.values())), 0
                case "any":
                    return int(any(values.values())), 0
                case "uni":
                    return int(len(set(values.values())) == 1), 0
        case "match":
            if words[1] == "any":
                return sum(1 << each for each in values if values[each] == values[lane]), 0
            is_one = len(set(values.values())) == 1
            return sum(1 << each for each in values) if is_one else 0, int(is_one)
        case "redux":
            given = list(values.values())
            if words[-1] == "s32":
                given = [signed(each, 32) for each in given]
            total = given[0]
            for each in given[1:]:
                total = {
                    "add": total + each,
                    "min": min(total, each),
                    "max": max(total, each),
                    "and": total & each,
                    "or": total | each,
                    "xor": total ^ each,
                }[words[2]]
            return total & 0xFFFFFFFF, 0
    raise AssertionError(words)


class Translator:
    """Turns one instruction into a Python function of a frame.

    That returns None, or the place of the next instruction. If the last of the four parts is true, it is a generator.
    """

    def __init__(self, machine, routine, step, place):
        self.machine, self.routine, self.step, self.place = machine, routine, step, place

    def translate(self):
        step = self.step
        name = step.words[0]
        waits = False
        if name in ("bar", "barrier") and "warp" not in step.words:
            do, waits = self.barrier(), True
        elif name in WARP_WIDE or name == "bar":
            do, waits = self.warp_wide(), True
        elif name == "call":
            do, waits = self.call(), True
        else:
            do = getattr(self, f"do_{name}", self.computed)()
        return step.guard, step.is_turned, do, waits

    # Operands

    def get(self, operand, bits):
        """Return a function of a frame that gives the value of an operand."""
        mask = (1 << bits) - 1
        if operand[0] == "!":
            name = operand[1:]
            return lambda frame: 1 - frame.registers[name]
        if operand in self.routine.bits:
            if self.routine.bits[operand] <= bits:
                return lambda frame: frame.registers[operand]
            return lambda frame: frame.registers[operand] & mask
        if operand[0] == "%":
            return partial(special, operand)
        if operand[0].isdigit() or operand[0] == "-":
            value = number(operand, max(bits, 32) if operand[:2] not in ("0f", "0d") else bits) & mask
            return lambda _: value
        return self.at(operand)

    def at(self, name):
        """Return a function of a frame that gives the address of a variable in its space."""
        if name in self.routine.variables and self.routine.variables[name].space == "local":
            return lambda frame: frame.local_at[name]
        fixed = (self.machine.shared_at | self.machine.global_at)[name]
        return lambda _: fixed

    def set(self, operand, bits, is_signed=False):
        """Return a function that gives a register a value of so many bits."""
        if operand == "_":
            return lambda frame, value: None
        width = self.routine.bits[operand]
        assert width >= bits, self.step.text

        def put(frame, value):
            frame.registers[operand] = signed(value, bits) % (1 << width) if is_signed and width > bits else value

        return put

    def computed(self):
        """Translate what is only a function of values."""
        words, (result, *given) = self.step.words, self.step.operands
        if words[-1] == "cc" or "cc" in words or words[0] in ("addc", "subc", "madc"):
            return self.carried()
        found = operation(words)
        assert found is not None, self.step.text
        function = found.function
        assert len(found.inputs) == len(given), self.step.text
        gets = [self.get(each, bits) for each, bits in zip(given, found.inputs, strict=True)]
        if words[0] == "setp":
            first, second = result if isinstance(result, list) else (result, "_")
            one, two = self.set(first, 1), self.set(second, 1)

            def do(frame):
                both = function(*[get(frame) for get in gets])
                one(frame, both & 1)
                two(frame, both >> 1)

            return do
        put = self.set(result, found.bits, found.is_signed)
        return lambda frame: put(frame, function(*[get(frame) for get in gets]))

    def carried(self):
        words, (result, *given) = self.step.words, self.step.operands
        function, inputs, bits = carried(tuple(each for each in words if each != "cc"))
        gets = [self.get(each, bits) for each, bits in zip(given, inputs, strict=True)]
        put = self.set(result, bits)

        def do(frame):
            value, carry = function(frame.thread.carry, *[get(frame) for get in gets])
            put(frame, value)
            if "cc" in words:
                frame.thread.carry = carry

        return do

    # Moves

    def do_mov(self):
        result, value = self.step.operands
        bits = BITS[self.step.words[-1]]
        if isinstance(value, list):
            part = bits // len(value)
            gets = [self.get(each, part) for each in value]
            put = self.set(result, bits)
            return lambda frame: put(frame, sum(get(frame) << part * index for index, get in enumerate(gets)))
        get = self.get(value, bits)
        if isinstance(result, list):
            part = bits // len(result)
            puts = [self.set(each, part) for each in result]

            def do(frame):
                whole = get(frame)
                for index, each in enumerate(puts):
                    each(frame, whole >> part * index & (1 << part) - 1)

            return do
        put = self.set(result, bits)
        return lambda frame: put(frame, get(frame))

    def do_cvta(self):
        result, value = self.step.operands
        space = next(each for each in self.step.words if each in ("global", "shared", "local", "const"))
        window = {"shared": SHARED, "local": LOCAL}.get(space, 0)
        window = -window if "to" in self.step.words else window
        get, put = self.get(value, 64), self.set(result, 64)
        return lambda frame: put(frame, get(frame) + window)

    # Memory

    def bytes_at(self, address, space):
        """Return a function of a frame that gives the bytes that an address is in, and where in them it is."""
        base, offset = address
        parameters = {each.name for each in (*self.routine.parameters, *self.routine.results)}
        if space == "param":
            assert base in parameters or base in self.routine.variables
            return lambda frame: (frame.parameters[base], offset)
        get = self.get(base, 64)

        def find(frame):
            at = get(frame) + offset & (1 << 64) - 1
            if space == "shared" or (not space and SHARED <= at < LOCAL):
                return frame.thread.block.shared, at % SHARED
            if space == "local" or (not space and at >= LOCAL):
                return frame.thread.local, at % LOCAL
            return self.machine.memory.find(at)

        return find

    def space(self):
        return next((each for each in self.step.words if each in ("global", "shared", "local", "param", "const")), "")

    def do_ld(self):
        result, address = self.step.operands
        kind = self.step.words[-1]
        width = BITS[kind] // 8
        parts = result if isinstance(result, list) else [result]
        puts = [self.set(each, 8 * width, kind[0] == "s") for each in parts]
        find = self.bytes_at(address, self.space())

        def do(frame):
            data, at = find(frame)
            assert at % (width * len(puts)) == 0
            assert 0 <= at <= len(data) - width * len(puts), self.step.text
            for index, put in enumerate(puts):
                start = at + width * index
                put(frame, int.from_bytes(data[start : start + width], "little"))

        return do

    def do_st(self):
        address, value = self.step.operands
        width = BITS[self.step.words[-1]] // 8
        gets = [self.get(each, 8 * width) for each in (value if isinstance(value, list) else [value])]
        find = self.bytes_at(address, self.space())

        def do(frame):
            data, at = find(frame)
            assert at % (width * len(gets)) == 0
            assert 0 <= at <= len(data) - width * len(gets), self.step.text
            for index, get in enumerate(gets):
                start = at + width * index
                data[start : start + width] = get(frame).to_bytes(width, "little")

        return do

    def do_atom(self):
        return self.changed(*self.step.operands)

    def do_red(self):
        return self.changed("_", *self.step.operands)

    def changed(self, result, address, *given):
        kind = self.step.words[-1]
        bits = BITS[kind]
        name = next(
            each
            for each in self.step.words
            if each in ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
        )
        find = self.bytes_at(address, self.space())
        gets = [self.get(each, bits) for each in given]
        put = self.set(result, bits, kind[0] == "s")
        simple = operation((name, "rn", kind) if kind[0] == "f" else (name, kind))
        flushed = operation(("add", "rn", "ftz", "f32")) if (name, kind) == ("add", "f32") else simple

        def new(is_global, old, operand, *more):
            match name:
                case "exch":
                    return operand
                case "cas":
                    return more[0] if old == operand else old
                case "inc":
                    return 0 if old >= operand else old + 1
                case "dec":
                    return operand if not old or old > operand else old - 1
            return (flushed if is_global else simple).function(old, operand)

        def do(frame):
            data, at = find(frame)
            is_global = data is not frame.thread.block.shared
            assert 0 <= at <= len(data) - bits // 8
            assert at % (bits // 8) == 0
            old = int.from_bytes(data[at : at + bits // 8], "little")
            changed = new(is_global, old, *[get(frame) for get in gets])
            data[at : at + bits // 8] = changed.to_bytes(bits // 8, "little")
            put(frame, old)

        return do

    def do_membar(self):
        return lambda frame: None

    do_fence = do_membar

    # Control flow

    def do_bra(self):
        target = self.routine.labels[self.step.operands[0]]
        return lambda _: target

    def do_brx(self):
        index, table = self.step.operands
        places = [self.routine.labels[each] for each in self.routine.tables[table]]
        get = self.get(index, 32)
        return lambda frame: places[get(frame)]

    def do_ret(self):
        end = len(self.routine.steps)
        return lambda _: end

    def do_exit(self):
        def do(_):
            raise Exited

        return do

    def call(self):
        name = next(each for each in self.step.operands if isinstance(each, str))
        lists = [each for each in self.step.operands if isinstance(each, list)]
        if len(lists) == 1:
            lists = [[], *lists] if isinstance(self.step.operands[0], str) else [*lists, []]
        return lambda frame: self.machine.call(frame, name, *lists)

    # What threads do together

    def barrier(self):
        words = [each for each in self.step.words if each not in ("cta", "aligned")]
        operands = list(self.step.operands)
        put, predicate, operator = None, None, None
        if "red" in words:
            operator = words[2]
            put, predicate = self.set(operands.pop(0), 32 if operator == "popc" else 1), self.get(operands.pop(), 1)
        barrier, *counts = [self.get(each, 32) for each in operands]

        def do(frame):
            needed = counts[0](frame) if counts else None
            if "arrive" in words:
                yield "arrive", barrier(frame)
                return
            given = predicate(frame) if predicate else None
            answer = yield "bar", barrier(frame), needed, operator, given
            if put:
                put(frame, answer)

        return do

    def warp_wide(self):
        words = self.step.words
        if words[0] == "bar":
            mask = self.get(self.step.operands[0], 32)

            def meet(frame):
                yield "warp", (self.routine.name, self.place), mask(frame), ("vote", "", "all"), 1

            return meet
        result, *given = self.step.operands
        mask = self.get(given.pop(), 32)
        width = {"vote": 1, "match": BITS[words[-1]]}.get(words[0], 32)
        gets = [self.get(each, width if not index else 32) for index, each in enumerate(given)]
        first, second = result if isinstance(result, list) else (result, "_")
        puts = self.set(first, 1 if words[0] == "vote" and words[2] != "ballot" else 32), self.set(second, 1)

        def do(frame):
            both = yield "warp", (self.routine.name, self.place), mask(frame), words, *[get(frame) for get in gets]
            for put, value in zip(puts, both, strict=True):
                put(frame, value)

        return do


def special(name, frame):
    """Return the value of a special register."""
    thread = frame.thread
    machine = thread.machine
    base, _, axis = name.partition(".")
    if axis:
        values = {"%tid": thread.place, "%ntid": machine.block, "%ctaid": thread.block.place, "%nctaid": machine.grid}
        return values[base]["xyz".index(axis)]
    lane = thread.number % 32
    bit = 1 << lane
    masks = {"%laneid": lane, "%lanemask_eq": bit, "%lanemask_lt": bit - 1, "%lanemask_le": 2 * bit - 1,
             "%lanemask_ge": -bit, "%lanemask_gt": -2 * bit}  # fmt: skip
    return masks[name] & 0xFFFFFFFF
