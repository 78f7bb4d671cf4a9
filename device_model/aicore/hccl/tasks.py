"""The collectives that a kernel can prepare, as methods of `Hccl`."""

from collections.abc import Sequence

from device_model.aicore.core.tensors import GlobalBuffer
from device_model.aicore.hccl.asked import Part, Ranges, count_of, listed, strided
from device_model.aicore.hccl.names import HcclDataType, HcclReduceOp
from device_model.kernel.findings import KernelError


class Tasks:
    """The part of `Hccl` that prepares collectives."""

    @property
    def _size(self) -> int:
        """How many ranks there are."""
        raise NotImplementedError  # pragma: no cover - Hccl has it

    def _parts(self, name: str, send: GlobalBuffer, recv: GlobalBuffer, data_type: HcclDataType) -> tuple[Part, Part]:
        """Return the buffers of a task."""
        raise NotImplementedError  # pragma: no cover - Hccl has it

    def _prepare(
        self,
        kind: str,
        count: int,
        data_type: HcclDataType,
        op: HcclReduceOp | None,
        repeat: int,
        *,
        commit: bool,
        sends: Ranges,
        receives: Ranges,
    ) -> int:
        """Send a task to the server; return its handle."""
        raise NotImplementedError  # pragma: no cover - Hccl has it

    def AllReduce(
        self,
        send_buf: GlobalBuffer,
        recv_buf: GlobalBuffer,
        count: int,
        data_type: HcclDataType,
        op: HcclReduceOp,
        repeat: int = 1,
        *,
        commit: bool = False,
    ) -> int:
        """Prepare sums, or the like, of *count* elements of each rank, for all ranks (Ascend C: Hccl.AllReduce).

        Runs on the scalar pipe and waits for nothing.

        Args:
            send_buf: What this rank gives. Turn i has elements count * i and on.
            recv_buf: Where the result goes, in the same way; it may be *send_buf*.
            count: The elements of a turn.
            data_type: Their type: float, half, bfloat16, or integers of up to 32 bits with a sign.
            op: HCCL_REDUCE_SUM, HCCL_REDUCE_MAX or HCCL_REDUCE_MIN.
            repeat: How many turns the task has, each with a Commit() and a Wait() of its own.
            commit: Whether all turns are committed at once (Ascend C: the template argument).

        Returns:
            The handle of the task.

        Raises:
            KernelError: There was no Init() or tiling, a count, type or operation is not possible, bytes lie outside of
                a buffer, or it is the 64th message.
        """
        send, recv = self._parts("AllReduce", send_buf, recv_buf, data_type)
        count = count_of("count", count)
        return self._prepare(
            "AllReduce", count, data_type, op, repeat, commit=commit,
            sends=lambda turn: (send.range(turn * count, count),),
            receives=lambda turn: (recv.range(turn * count, count),),
        )  # fmt: skip

    def AllGather(
        self,
        send_buf: GlobalBuffer,
        recv_buf: GlobalBuffer,
        send_count: int,
        data_type: HcclDataType,
        stride_count: int,
        repeat: int = 1,
        *,
        commit: bool = False,
    ) -> int:
        """Prepare that all ranks get the *send_count* elements of each rank (Ascend C: Hccl.AllGather).

        Runs on the scalar pipe and waits for nothing.

        Args:
            send_buf: What this rank gives. Turn i has elements send_count * i and on.
            recv_buf: Where all go. In turn i those of rank r go to element send_count * i + stride * r.
            send_count: The elements of each rank in a turn.
            data_type: Their type.
            stride_count: That stride in elements; 0 is *send_count*.
            repeat: As for AllReduce().
            commit: As for AllReduce().

        Returns:
            The handle of the task.

        Raises:
            KernelError: As for AllReduce().
        """
        send, recv = self._parts("AllGather", send_buf, recv_buf, data_type)
        count = count_of("send_count", send_count)
        return self._prepare(
            "AllGather", count, data_type, None, repeat, commit=commit,
            sends=lambda turn: (send.range(turn * count, count),),
            receives=strided(self._size, recv, count, stride_count),
        )  # fmt: skip

    def ReduceScatter(
        self,
        send_buf: GlobalBuffer,
        recv_buf: GlobalBuffer,
        recv_count: int,
        data_type: HcclDataType,
        op: HcclReduceOp,
        stride_count: int,
        repeat: int = 1,
        *,
        commit: bool = False,
    ) -> int:
        """Prepare that each rank gets its part of the sums of all ranks (Ascend C: Hccl.ReduceScatter).

        Runs on the scalar pipe and waits for nothing.

        Args:
            send_buf: What this rank gives. In turn i the part for rank r begins at element recv_count * i + stride * r.
            recv_buf: Where this rank's part of the result goes. Turn i has elements recv_count * i and on.
            recv_count: The elements that each rank gets in a turn.
            data_type: As for AllReduce().
            op: As for AllReduce().
            stride_count: That stride in elements; 0 is *recv_count*.
            repeat: As for AllReduce().
            commit: As for AllReduce().

        Returns:
            The handle of the task.

        Raises:
            KernelError: As for AllReduce().
        """
        send, recv = self._parts("ReduceScatter", send_buf, recv_buf, data_type)
        count = count_of("recv_count", recv_count)
        return self._prepare(
            "ReduceScatter", count, data_type, op, repeat, commit=commit,
            sends=strided(self._size, send, count, stride_count),
            receives=lambda turn: (recv.range(turn * count, count),),
        )  # fmt: skip

    def AlltoAll(
        self,
        send_buf: GlobalBuffer,
        recv_buf: GlobalBuffer,
        data_count: int,
        data_type: HcclDataType,
        stride_count: int = 0,
        repeat: int = 1,
        *,
        commit: bool = False,
    ) -> int:
        """Prepare that each rank sends *data_count* elements to each rank (Ascend C: Hccl.AlltoAll).

        Runs on the scalar pipe and waits for nothing.

        Args:
            send_buf: What this rank gives. In turn i that for rank r begins at element data_count * i + stride * r.
            recv_buf: Where the elements of each rank go, in the same way.
            data_count: The elements from each rank to each in a turn.
            data_type: Their type.
            stride_count: That stride in elements; 0 is *data_count*.
            repeat: As for AllReduce().
            commit: As for AllReduce().

        Returns:
            The handle of the task.

        Raises:
            KernelError: As for AllReduce().
        """
        send, recv = self._parts("AlltoAll", send_buf, recv_buf, data_type)
        count = count_of("data_count", data_count)
        return self._prepare(
            "AlltoAll", count, data_type, None, repeat, commit=commit,
            sends=strided(self._size, send, count, stride_count),
            receives=strided(self._size, recv, count, stride_count),
        )  # fmt: skip

    def AlltoAllV(
        self,
        send_buf: GlobalBuffer,
        send_counts: Sequence[int],
        sdispls: Sequence[int],
        send_type: HcclDataType,
        recv_buf: GlobalBuffer,
        recv_counts: Sequence[int],
        rdispls: Sequence[int],
        recv_type: HcclDataType,
        repeat: int = 1,
        *,
        commit: bool = False,
    ) -> int:
        """Prepare that each rank sends to each rank a number of elements of its own (Ascend C: Hccl.AlltoAllV).

        Runs on the scalar pipe and waits for nothing. Of the vendor's cards, Atlas A3 has it, and A2 does not.

        Args:
            send_buf: What this rank gives.
            send_counts: How many elements go to each rank: a number for each.
            sdispls: Where in *send_buf* those for each rank begin, in elements; in turn i so many counts further on.
            send_type: Their type.
            recv_buf: Where the elements of each rank go.
            recv_counts: How many elements come from each rank: as many as it sends.
            rdispls: Where in *recv_buf* those of each rank begin, as *sdispls*.
            recv_type: The same as *send_type*.
            repeat: As for AllReduce().
            commit: As for AllReduce().

        Returns:
            The handle of the task.

        Raises:
            KernelError: As for AllReduce(), or there is not a number for each rank, or the types differ.
        """
        if send_type != recv_type:
            raise KernelError(f"AlltoAllV from {send_type!r} to {recv_type!r}", "send and receive the same type")
        send, recv = self._parts("AlltoAllV", send_buf, recv_buf, send_type)
        return self._prepare(
            "AlltoAllV", 0, send_type, None, repeat, commit=commit,
            sends=listed(self._size, send, "send_counts", send_counts, sdispls),
            receives=listed(self._size, recv, "recv_counts", recv_counts, rdispls),
        )  # fmt: skip
