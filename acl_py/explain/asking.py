"""Questions about one case, asked in other processes, too. Each of them runs the program as it is once."""

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from acl_py.explain.cases import Case, EditError
from acl_py.explain.edits import Edit
from acl_py.explain.whatif import Answer, Asker


class Worth(NamedTuple):
    """What *edits* are worth: *gain_ns*, and whether they leave work without order."""

    edits: tuple[Edit, ...]
    gain_ns: int
    has_conflicts: bool


class _Askers:
    """The asker of the last case that this process was asked about."""

    key = ""
    asker: Asker


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks a case about edits, in any process. *key* stands for the case, *pickled* is it."""

    key: str
    pickled: bytes

    def __call__(self, edits: Sequence[Edit]) -> Answer | EditError:
        """Return the answer to *edits*, or why they cannot be made."""
        if _Askers.key != self.key:
            case: Case = pickle.loads(self.pickled)  # the process that has begun made it
            _Askers.key, _Askers.asker = self.key, Asker(case)
        try:
            return _Askers.asker.ask(edits)
        except EditError as error:
            return error

    def worth(self, edits: Sequence[Edit]) -> Worth | None:
        """Return what *edits* are worth; None if they cannot be made."""
        answer = self(edits)
        if isinstance(answer, EditError):
            return None
        return Worth(tuple(edits), answer.gain_ns, bool(answer.conflicts))


def asking_of(asker: Asker) -> Asking:
    """Return what asks about the case of *asker*; in this process it is *asker* that answers."""
    pickled = pickle.dumps(asker.case)
    key = hashlib.sha256(pickled).hexdigest()
    _Askers.key, _Askers.asker = key, asker
    return Asking(key, pickled)
