"""A board without a host: run mode 0, and one memory for the program and the device."""

import card
import numpy as np
import pytest
from card import D2D, D2H, DEFAULT, H2D, H2H, done, made, times

import acl_py
from acl_py.compat.acl import Tensor, register_model, unregister_model
from acl_py.compat.acl.face.session import session

FLOAT, UBYTE = 11, 2


@pytest.fixture
def board():
    """The module on the tiny board."""
    with card.module(card.BOARD) as module:
        yield module


def test_the_run_mode_is_that_of_the_profile(board):
    assert board.rt.get_run_mode() == (0, 0)


@pytest.mark.parametrize(("name", "mode"), [("ascend310", 0), ("ascend310b", 0), ("ascend310p3", 1)])
def test_the_run_modes_of_cards(name, mode):
    with card.module(name) as acl:
        assert acl.rt.get_run_mode() == (mode, 0)


@pytest.mark.parametrize("allocate", [lambda acl: acl.rt.malloc(64, 0), lambda acl: acl.rt.malloc_host(64),
                                      lambda acl: acl.media.dvpp_malloc(64)])  # fmt: skip
def test_all_memory_is_readable_and_writable_in_place(board, allocate):
    address = made(allocate(board))
    view = board.util.ptr_to_numpy(address, (16,), FLOAT)
    view[:] = 1.5
    assert board.util.ptr_to_bytes(address, 64) == np.full(16, 1.5, np.float32).tobytes()
    other = made(board.rt.malloc(64, 0))
    done(board.rt.memcpy(other, 64, address, 64, D2D))
    assert board.util.ptr_to_numpy(other, (16,), FLOAT).tolist() == [1.5] * 16


def test_on_a_host_device_memory_cannot_be_read(acl):
    address = made(acl.rt.malloc(64, 0))
    with pytest.raises(ValueError, match="is device memory; copy it to the host with"):
        acl.util.ptr_to_bytes(address, 64)


@pytest.mark.parametrize("kind", [H2D, D2H, D2D, DEFAULT])
def test_an_asynchronous_copy_stays_in_the_device_whatever_the_kind(board, kind):
    """Documented: on a board, a kind that names the host is taken as device to device."""
    host, device, stream = (
        made(board.rt.malloc_host(200)),
        made(board.rt.malloc(200, 0)),
        made(board.rt.create_stream()),
    )
    board.util.ptr_to_numpy(host, (200,), UBYTE)[:] = range(200)
    begin = card.now()
    done(board.rt.memcpy_async(device, 200, host, 200, kind, stream), board.rt.synchronize_stream(stream))
    assert board.util.ptr_to_bytes(device, 200) == bytes(range(200))
    [op] = session().trace.ops
    assert (op.kind, op.engine, op.start_ns - begin, op.end_ns - begin) == ("d2d", "cores", 1_000, 1_200)


@pytest.mark.parametrize("kind", [H2H, H2D, D2H, D2D])
def test_a_synchronous_copy_takes_memory_of_python_whatever_the_kind(board, kind):
    data = bytes(range(100))
    device, out = made(board.rt.malloc(100, 0)), bytes(100)
    done(board.rt.memcpy(device, 100, board.util.bytes_to_ptr(data), 100, kind))
    done(board.rt.memcpy(board.util.bytes_to_ptr(out), 100, device, 100, kind))
    assert out == data


def test_memory_that_was_freed_is_refused_even_if_an_array_keeps_it(board):
    address = made(board.rt.malloc(64, 0))
    view = board.util.ptr_to_numpy(address, (64,), UBYTE)
    done(board.rt.free(address))
    assert board.rt.memset(address, 64, 0, 64) == 107000
    assert "dst is an address inside <Buffer device 64 B" in board.get_recent_err_msg()
    assert view.nbytes == 64


def test_malloc_host_takes_device_memory_and_survives_a_reset(board):
    before, total, _ = board.rt.get_mem_info(0)
    host = made(board.rt.malloc_host(1 << 20))
    assert board.rt.get_mem_info(0) == (before - (1 << 20), total, 0)
    assert board.rt.pointer_get_attributes(host)[0]["location"] == {"id": 0, "type": 1}
    assert board.rt.host_get_device_pointer(host, 0) == (host, 0)
    done(board.rt.reset_device(0), board.rt.set_device(0))
    done(board.rt.free_host(host))
    assert board.rt.get_mem_info(0) == (total, total, 0)


def test_a_kernel_takes_memory_of_malloc_host_by_its_bare_address(board):
    @acl_py.kernel(cost=acl_py.Cost(us=5))
    def increment(values: acl_py.InOut, step):
        values += np.uint8(step)

    address = made(board.rt.malloc_host(8))
    board.util.ptr_to_numpy(address, (8,), UBYTE)[:] = range(8)
    begin = card.now()
    op = card.launch(increment, 0, address, 3)
    done(board.rt.synchronize_stream(0))
    assert board.util.ptr_to_bytes(address, 8) == bytes(range(3, 11))
    assert times(begin, op) == [("increment", 1_000, 6_000)]


@pytest.fixture
def doubling():
    """A model that gives twice its input."""
    x, y = (Tensor(name, "float32", (4,)) for name in "xy")
    register_model("double.om", [x], [y], cost_us=5)(lambda x: 2 * x)
    yield "double.om"
    unregister_model("double.om")


def execute(acl, name, source, target):
    """Execute a model from one address to another, and return the code."""
    model = made(acl.mdl.load_from_file(name))
    datasets = []
    for address in (source, target):
        datasets.append(acl.mdl.create_dataset())
        acl.mdl.add_dataset_buffer(datasets[-1], acl.create_data_buffer(address, 16))
    return acl.mdl.execute(model, *datasets)


def test_a_model_reads_and_writes_arrays_of_python_on_a_board(board, doubling):
    source, target = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    done(execute(board, doubling, source.ctypes.data, target.ctypes.data))
    assert target.tolist() == [0, 2, 4, 6]


def test_the_gear_of_a_model_on_a_board_lies_in_an_array_of_python(board):
    register_model("g.om", [Tensor("x", "int8", (-1,))], [Tensor("y", "int8", ("batch",))], dynamic_batch=[1, 2])(
        lambda x: x + 1
    )
    arrays = np.array([1, 2], np.int8), np.zeros(1, np.int64), np.zeros(2, np.int8)
    given, wanted = board.mdl.create_dataset(), board.mdl.create_dataset()
    for dataset, array in zip((given, given, wanted), arrays, strict=True):
        board.mdl.add_dataset_buffer(dataset, board.create_data_buffer(array.ctypes.data, array.nbytes))
    model = made(board.mdl.load_from_file("g.om"))
    done(board.mdl.set_dynamic_batch_size(model, given, 1, 2), board.mdl.execute(model, given, wanted))
    assert (arrays[1].tolist(), arrays[2].tolist()) == ([2], [2, 3])
    unregister_model("g.om")


def test_a_model_on_a_board_is_refused_memory_that_is_not_there(board, doubling):
    target = made(board.rt.malloc(16, 0))
    assert execute(board, doubling, 0x1000, target) == 107000
    assert "at which the host has no 16 B of memory" in board.get_recent_err_msg()
    gone = made(board.rt.malloc(16, 0))
    view = board.util.ptr_to_numpy(gone, (4,), FLOAT)
    done(board.rt.free(gone))
    assert execute(board, doubling, gone, target) == 107000
    assert "freed" in board.get_recent_err_msg()
    assert view.nbytes == 16


def test_a_model_on_a_board_does_not_write_beyond_the_end_of_an_object(board, doubling):
    source, target = np.arange(4, dtype=np.float32), bytes(8)
    assert execute(board, doubling, source.ctypes.data, board.util.bytes_to_ptr(target)) == 107000
    assert "16 bytes are written where only 8 are left" in board.get_recent_err_msg()
    assert target == bytes(8)


def test_a_model_on_a_card_in_a_host_is_refused_arrays_of_python(acl, doubling):
    source = np.arange(4, dtype=np.float32)
    assert execute(acl, doubling, source.ctypes.data, made(acl.rt.malloc(16, 0))) == 107000
