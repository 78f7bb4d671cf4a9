"""Names of the programming model: pipes, events between them, positions of tensors, kinds of cores.

Which events exist on which core, and which memory a position lies in, follow the split cores of Atlas A2 and A3
(architecture 2201). That is a cube core (AIC) and its two vector cores (AIV).
"""

from enum import Enum, IntEnum


class Pipe(IntEnum):
    """The pipes of a core: each executes its instructions in order, independently of the others."""

    S = 0  # scalar: runs the kernel's code and issues to the others
    V = 1  # vector
    M = 2  # cube
    MTE1 = 3  # L1 to L0A, L0B, BT and FB
    MTE2 = 4  # GM to L1 and UB
    MTE3 = 5  # UB and L1 to GM
    FIX = 6  # L0C to GM and L1
    ALL = 7  # for PipeBarrier only

    def __str__(self) -> str:
        return self.name


PIPES = tuple(pipe for pipe in Pipe if pipe is not Pipe.ALL)
# The names that Ascend C uses.
PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL = Pipe


class CoreType(IntEnum):
    """The type of a core: cube (AIC) or vector (AIV)."""

    AIC = 0
    AIV = 1

    def __str__(self) -> str:
        return self.name


class KernelType(Enum):
    """The cores that a block of a kernel runs on: `(cube cores, vector cores)`."""

    AIV_ONLY = (0, 1)
    AIC_ONLY = (1, 0)
    MIX_AIC_1_1 = (1, 1)
    MIX_AIC_1_2 = (1, 2)

    @property
    def cubes(self) -> int:
        """Cube cores per block."""
        return self.value[0]

    @property
    def vectors(self) -> int:
        """Vector cores per block."""
        return self.value[1]


PIPES_OF = {
    CoreType.AIC: (Pipe.S, Pipe.M, Pipe.MTE1, Pipe.MTE2, Pipe.MTE3, Pipe.FIX),
    CoreType.AIV: (Pipe.S, Pipe.V, Pipe.MTE2, Pipe.MTE3),
}


class HardEvent(IntEnum):
    """A kind of flag between two pipes: the first pipe of its name, `source`, sets it; `destination` waits for it.

    The order is that of the vendor's header. Only those in `EVENTS_OF[core type]` exist on a core.
    """

    MTE2_MTE1 = 0
    MTE1_MTE2 = 1
    MTE1_M = 2
    M_MTE1 = 3
    MTE2_V = 4
    V_MTE2 = 5
    MTE3_V = 6
    V_MTE3 = 7
    M_V = 8
    V_M = 9
    V_V = 10
    MTE3_MTE1 = 11
    MTE1_MTE3 = 12
    MTE1_V = 13
    MTE2_M = 14
    M_MTE2 = 15
    V_MTE1 = 16
    M_FIX = 17
    FIX_M = 18
    MTE3_MTE2 = 19
    MTE2_MTE3 = 20
    S_V = 21
    V_S = 22
    S_MTE2 = 23
    MTE2_S = 24
    S_MTE3 = 25
    MTE3_S = 26
    MTE2_FIX = 27
    FIX_MTE2 = 28
    FIX_S = 29
    M_S = 30
    FIX_MTE3 = 31
    MTE1_FIX = 32
    FIX_MTE1 = 33
    FIX_FIX = 34

    def __init__(self, _: int) -> None:
        source, destination = self.name.split("_")
        self.source = Pipe[source]
        self.destination = Pipe[destination]
        # Made once: names of instructions are on the hot path.
        self.set_name = f"SetFlag<{self.name}>"
        self.wait_name = f"WaitFlag<{self.name}>"

    def __str__(self) -> str:
        return self.name


EVENT_OF = {(event.source, event.destination): event for event in HardEvent}

_ON_AIC = (
    "MTE2_MTE1 MTE1_MTE2 MTE1_M M_MTE1 MTE3_MTE1 MTE1_MTE3 MTE2_M M_MTE2 M_FIX FIX_M MTE3_MTE2 MTE2_MTE3 "
    "S_MTE2 MTE2_S S_MTE3 MTE3_S MTE2_FIX FIX_MTE2 FIX_S M_S FIX_MTE3 MTE1_FIX FIX_MTE1 FIX_FIX"
)
_ON_AIV = "MTE2_V V_MTE2 MTE3_V V_MTE3 V_V MTE3_MTE2 MTE2_MTE3 S_V V_S S_MTE2 MTE2_S S_MTE3 MTE3_S"
EVENTS_OF = {
    core_type: tuple(map(HardEvent.__getitem__, names.split()))
    for core_type, names in ((CoreType.AIC, _ON_AIC), (CoreType.AIV, _ON_AIV))
}


EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 = range(8)


BLOCK = 32  # bytes of a DataBlock, the unit of local memories


class Space(Enum):
    """A memory of a core, or GM; the value is its name."""

    GM = "GM"
    UB = "UB"
    L1 = "L1"
    L0A = "L0A"
    L0B = "L0B"
    L0C = "L0C"
    BT = "BT"
    FB = "FB"
    CMP_MASK = "CmpMask"  # the register of 128 bits into which a vector core compares

    __hash__ = object.__hash__  # by identity: the hash of Enum is slow, and these are keys on the hot path

    def __str__(self) -> str:
        return self.value


SPACES_OF = {
    CoreType.AIC: (Space.L1, Space.L0A, Space.L0B, Space.L0C, Space.BT, Space.FB),
    CoreType.AIV: (Space.UB, Space.CMP_MASK),
}


class TPosition(Enum):
    """A logical place of tensors; `space` is the memory that it lies in."""

    GM = ("GM", Space.GM)
    A1 = ("A1", Space.L1)
    B1 = ("B1", Space.L1)
    C1 = ("C1", Space.L1)
    A2 = ("A2", Space.L0A)
    B2 = ("B2", Space.L0B)
    C2 = ("C2", Space.BT)
    CO1 = ("CO1", Space.L0C)
    CO2 = ("CO2", Space.GM)
    C2PIPE2GM = ("C2PIPE2GM", Space.FB)
    TSCM = ("TSCM", Space.L1)
    VECIN = ("VECIN", Space.UB)
    VECOUT = ("VECOUT", Space.UB)
    VECCALC = ("VECCALC", Space.UB)

    def __init__(self, _: str, space: Space) -> None:
        self.space = space

    __hash__ = object.__hash__  # as Space

    def __str__(self) -> str:
        return self.name


QuePosition = TPosition  # the older name


class CacheMode(Enum):
    """Whether copies of a GlobalTensor go through the L2."""

    CACHE_MODE_NORMAL = 0
    CACHE_MODE_DISABLE = 1  # they bypass it


class RoundMode(Enum):
    """How Cast rounds; the value is the vendor's name."""

    CAST_NONE = "CAST_NONE"  # exact, or as CAST_RINT where it cannot be
    CAST_RINT = "CAST_RINT"  # to nearest, ties to even
    CAST_FLOOR = "CAST_FLOOR"
    CAST_CEIL = "CAST_CEIL"
    CAST_ROUND = "CAST_ROUND"  # to nearest, ties away from zero
    CAST_TRUNC = "CAST_TRUNC"
    CAST_ODD = "CAST_ODD"  # von Neumann: to the neighbour with an odd last bit


class CMPMODE(Enum):
    """The comparison that Compare makes."""

    LT = "LT"
    GT = "GT"
    GE = "GE"
    LE = "LE"
    EQ = "EQ"
    NE = "NE"


class SELMODE(Enum):
    """How Select reads its bits, and whether its second source is a number."""

    VSEL_CMPMASK_SPR = 0
    VSEL_TENSOR_SCALAR_MODE = 1
    VSEL_TENSOR_TENSOR_MODE = 2
