"""Scripts that run an event loop, or carry context variables about: what is current belongs to the thread."""

import asyncio
import contextvars
import threading

from card import done, made

NOWHERE = 0, 107002


def in_thread(function, *args):
    """What *function* gives in a thread of its own."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function(*args)))
    thread.start()
    thread.join()
    return answers[0]


def test_what_a_task_sets_is_current_in_the_whole_thread(acl):
    """As in servers: a task at the beginning sets the device, and the handlers are tasks beside it."""

    async def startup():
        done(acl.rt.set_device(1))
        return made(acl.rt.create_stream())

    async def handler(stream):
        device = made(acl.rt.malloc(64, 0))
        await asyncio.sleep(0)
        return (
            acl.rt.memset_async(device, 64, 1, 64, stream),
            acl.rt.synchronize_stream(stream),
            acl.rt.free(device),
            acl.rt.get_device(),
        )

    async def main():
        stream = await asyncio.create_task(startup())
        answers = await asyncio.gather(*(asyncio.create_task(handler(stream)) for _ in range(3)))
        assert answers == [(0, 0, 0, (1, 0))] * 3

    asyncio.run(main())
    assert acl.rt.get_device() == (1, 0)


def test_each_call_that_makes_a_context_current_does_so_in_the_whole_thread(acl):
    first = made(acl.rt.get_context())

    def elsewhere(function, *args):
        """Call it where context variables are new, as in a task that somebody else has made."""
        return contextvars.Context().run(function, *args)

    created = made(elsewhere(acl.rt.create_context, 1))
    assert acl.rt.get_context() == (created, 0)
    done(elsewhere(acl.rt.set_context, first))
    assert acl.rt.get_context() == (first, 0)
    done(elsewhere(acl.rt.set_context, created), elsewhere(acl.rt.destroy_context, created))
    assert acl.rt.get_context() == NOWHERE
    done(elsewhere(acl.rt.set_device, 0))
    assert acl.rt.get_device() == (0, 0)
    done(elsewhere(acl.rt.reset_device_force, 0))
    assert acl.rt.get_device() == NOWHERE


def test_a_thread_has_no_context_though_context_variables_are_copied_into_it(acl):
    assert in_thread(contextvars.copy_context().run, acl.rt.get_device) == NOWHERE

    async def main():
        assert await asyncio.to_thread(acl.rt.get_device) == NOWHERE
        assert await asyncio.to_thread(lambda: (acl.rt.set_device(1), acl.rt.get_device())) == (0, (1, 0))

    asyncio.run(main())
    assert acl.rt.get_device() == (0, 0)


def test_errors_of_the_thread_that_copied_its_variables_are_not_those_of_the_new_one(acl):
    assert acl.rt.free(0) == 100000

    def last():
        return acl.rt.get_device()[1], acl.rt.get_last_error(0), acl.rt.get_last_error(0)

    assert in_thread(contextvars.copy_context().run, last) == (107002, 107002, 0)
    assert in_thread(contextvars.copy_context().run, lambda: acl.get_soc_name() and acl.get_recent_err_msg()) is None
    assert acl.rt.peek_at_last_error(0) == 100000


def test_the_last_error_and_its_message_are_the_threads_whichever_task_failed(acl):
    async def fails(handle):
        return acl.rt.synchronize_stream(handle)

    async def main():
        assert acl.rt.peek_at_last_error(0) == 0
        assert await asyncio.create_task(fails(0xBAD)) == 107017
        assert acl.rt.peek_at_last_error(0) == 107017
        assert "0xbad" in acl.get_recent_err_msg()
        assert acl.rt.free(0) == 100000
        assert await asyncio.create_task(asyncio.to_thread(acl.rt.peek_at_last_error, 0)) == 0
        assert [await asyncio.create_task(last()) for _ in range(2)] == [100000, 0]
        return acl.rt.get_last_error(0), await asyncio.create_task(fails(0xBAD))

    async def last():
        return acl.rt.get_last_error(0)

    assert asyncio.run(main()) == (0, 107017)
    assert "0xbad" in acl.get_recent_err_msg()
