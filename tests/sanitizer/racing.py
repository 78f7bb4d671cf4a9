"""Small racy programs: their kernels, and what is found in them."""

import acl_py as acl

H2D, D2H, D2D = acl.MemcpyKind.HOST_TO_DEVICE, acl.MemcpyKind.DEVICE_TO_HOST, acl.MemcpyKind.DEVICE_TO_DEVICE
CUDA = ("cuda", "cuda_per_thread")


@acl.kernel(cost=acl.Cost(us=10))
def write(x: acl.Out):
    x[:] = 1


@acl.kernel(cost=acl.Cost(us=10))
def read(x: acl.In):
    pass


def found(program, rules="cuda", sanitize="device", **options):
    """Return kind, lines and spans of what is found in *program*; lines count from its first one."""
    result = []

    async def whole():
        sim = acl.current_simulation()
        await program()
        result.extend(sim.findings)

    acl.run(whole, device="tiny", rules=rules, sanitize=sanitize, **options)
    first = program.__code__.co_firstlineno
    return [
        (
            str(finding.kind),
            *(int(access.site.split(":")[1]) - first for access in finding.accesses),
            *(f"{span.start}:{span.stop}" for span in finding.spans),
        )
        for finding in result
    ]


async def two_streams(**options):
    return await acl.CreateStream(name="one", **options), await acl.CreateStream(name="two", **options)
