"""Traits of tensors: a type with a position and a layout."""

import numpy as np
import pytest
from cores import found, launch
from instructions import after, bfloat16, half

from device_model.aicore.core.names import HardEvent, TPosition
from device_model.aicore.core.packed import int4b_t
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, dtype_of
from device_model.aicore.core.traits import MakeTensorTrait, TensorTrait, is_tensorTrait
from device_model.aicore.flags.queues import TBuf, TQue
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.vector.elementwise import Add
from device_model.kernel.findings import KernelError

LAYOUT = (4, 16), (16, 1)


def test_a_trait_stands_for_its_type():
    """In queues, buffers and GM; instructions take tensors of traits as they take others."""
    x, y = np.arange(64, dtype=half), np.zeros(64, half)
    trait = TensorTrait(half)

    def kernel(x, y):
        pipe, arriving, leaving, room = TPipe(), TQue(TPosition.VECIN, 1), TQue(TPosition.VECOUT, 1), TBuf()
        for queue in (arriving, leaving):
            pipe.InitBuffer(queue, 1, 128)
        pipe.InitBuffer(room, 128)
        local = arriving.AllocTensor(trait)
        DataCopy(local, GlobalTensor(trait).SetGlobalBuffer(x), 64)
        arriving.EnQue(local)
        local, result, other = arriving.DeQue(trait), leaving.AllocTensor(trait), room.Get(trait)
        Add(other, local, local, 64)
        Add(result, other, local, 64)
        assert (result.dtype, other.GetSize()) == (half, 64)
        leaving.EnQue(result)
        arriving.FreeTensor(local)
        result = leaving.DeQue(trait)
        DataCopy(GlobalTensor(half).SetGlobalBuffer(y), result, 64)
        leaving.FreeTensor(result)

    assert found(launch(kernel, x, y)) == []
    assert y.tolist() == (3 * x).tolist()


def test_a_tensor_carries_the_trait_that_it_was_made_with_or_got():
    trait = MakeTensorTrait(half, TPosition.VECIN, LAYOUT)

    def kernel(x):
        made = LocalTensor(trait, TPosition.VECIN, 0, 64)
        in_gm = GlobalTensor(trait).SetGlobalBuffer(x)
        assert (made.GetTensorTrait(), in_gm.GetTensorTrait()) == (trait, trait)
        plain = LocalTensor(half, TPosition.VECIN, 0, 64)
        with pytest.raises(KernelError, match=r"GetTensorTrait of .*; make it with a TensorTrait, or set one"):
            plain.GetTensorTrait()
        plain.SetTensorTrait(trait)
        assert plain.GetTensorTrait().GetLayout() == LAYOUT
        for other in (TensorTrait(np.float32), half):
            with pytest.raises(KernelError, match=r"SetTensorTrait.*; give it a TensorTrait of float16"):
                plain.SetTensorTrait(other)
        after(HardEvent.MTE2_V)

    launch(kernel, np.zeros(64, half))


def test_the_layout_of_a_trait_is_two_equal_lengths():
    trait = TensorTrait(bfloat16)
    assert (trait.position, trait.GetLayout()) == (TPosition.GM, ((), ()))
    trait.SetLayout(LAYOUT)
    assert trait.GetLayout() == LAYOUT
    for layout in (((4, 16), (16,)), ((4,),)):
        with pytest.raises(KernelError, match=r"it is \(shape, stride\), which are equally long"):
            trait.SetLayout(layout)


def test_a_trait_has_a_type_that_cores_have():
    assert dtype_of(TensorTrait(int4b_t)) is int4b_t
    assert [is_tensorTrait(each) for each in (TensorTrait(half), half, "float16")] == [True, False, False]
    for wrong in (bool, np.float64):
        with pytest.raises(KernelError, match=r"a TensorTrait of .*; its type is one of int4, uint8"):
            TensorTrait(wrong)
