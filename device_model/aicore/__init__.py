"""AI cores: kernels written as in Ascend C are run with NumPy, timed pipe by pipe, and checked for hazards.

A launch takes three steps. `runner` runs each block of the kernel on a `Core`: instructions compute their results at
once and are recorded in a `Program`. While they are recorded, `hazards` checks that the accesses to each byte are
ordered by flags, and reports a finding if not. Then `timing.play` works out when each instruction would have run.
Blocks that take the same steps are run as one (`alike`).

From the top down; each room imports only from those below it:

    caches          the L2 of each device: what work has left there
    launch          a launch of a kernel, as the work of an operation of a device
    shaping/        how a shape is spread over cores
        tiling          a length divided over blocks and tiles; tiling keys
        selector        selects the kind of kernel for the rows of a matrix
        balance         assigns units of unequal size to cores, longest first
        binding         what binds a launch, and the least time that it can take
        advice          finds lines that use memory badly, and what that costs
    runner          runs the blocks of a kernel
    cube/           the cube unit
        matmul matmul_operands              the Matmul object, made of the instructions below; what it multiplies
        matmul_batches matmul_requests      what is requested as a whole; how vector cores ask a cube core
        matmul_cube                         how that computes
        matmul_tiling                       sizes of pieces
        conv3d conv3d_input conv3d_filter   the Conv3D object; its gradients by input and weights
        conv3d_operands conv3d_steps        what they take; how gradients are asked for
        conv3d_pieces conv3d_part           their pieces; what one core computes
        conv3d_tiling                       sizes of pieces
        fixpipe loads im2col mmad           the instructions: store, load to L0, unroll images, multiply
        unit_flags                          flags for blocks of L0C
    hccl/           collectives that kernels ask for
        client tasks    Hccl: the object of a kernel, and what it can prepare
        server          the AI CPU that carries tasks out: their order, and checks of what they touch
        asked names     buffers of a task for each rank and turn; types and reductions
    functions/      functions of whole tensors, made of vector instructions
        rounding activations powers         to whole numbers, logarithms; Sigmoid and others; Power, Sin, Erf and others
        quantised quantising                AscendDequant; AscendQuant and AscendAntiQuant
        means padding                       ReduceMean, Fmod, limits; Pad and UnPad
        rows sorting                        Broadcast, Sum, Fill; Sort and what goes with it
        softmax softmax_results             SoftMax; its logarithm, the front of its gradient and others
        norms welford                       RmsNorm, LayerNorm and others; mean and variance of parts of a row
        matrices                            instructions over all rows of a matrix
        makers scratch                      their forms; temporary buffers, and the pieces that fit them
    vector/         the vector unit
        gather transdata select sort        rearrange; transpose blocks; compare and select; sort and merge
        reduce reduce_repeats               reduce a whole tensor; each repeat, block or pair
        reduction                           the plan of a reduction
        fill elementwise                    constants and indices; element by element
        unit banks masks casts math         plans of instructions; bank conflicts; lanes; conversions; arithmetic
    flags/          order between instructions
        stages          pipelines of stages, with queues or with raw events
        tpipe           TPipe: divides the local memories among queues
        bufpool         TBufPool: a part of a memory that is divided further
        queues          TQue, TQueBind, TBuf
        allocator       LocalMemAllocator: memory without a TPipe
        posting         IBSet and IBWait: one core tells another one through GM
        crossing        flags between cores, SyncAll
        sync            flags, event ids, barriers
        pool            buffers that rest before they are handed out again
    moving/         data between memories
        copies          DataCopy, DataCopyPad
        atomics         copies that are combined with the bytes in GM
    alike/          blocks that take the same steps
        groups          which blocks run as one, and what each of them does then
        recorder        a core that notes what such blocks do
        plain           whether a kernel does the same at each call
    timing/         when instructions run
        steps           a launch that waits for others, played in steps beside the clock
        play            the pipes of each core, instruction by instruction
        gm l2           the demands of copies on HBM and the L2; the L2 cache
        bandwidth       how copies share the bandwidth of a memory
    core/           one core
        debug           printf, DumpTensor, assert_
        blocks          GetBlockIdx and other questions of a kernel about its place
        registers       the system counter, the control register
        lists           arguments that are lists of tensors
        tensors         LocalTensor, GlobalTensor, GlobalBuffer
        each            numbers that differ from block to block
        machine         Core: issues instructions and orders them; BlockStrand: a block that can wait for other cores
        memories        local memories, and allocations in GM
        hazards         checks that each access to bytes is ordered after the earlier ones
        findings        the rules that a kernel can break; failed assertions
        program         Instruction, Program: the record of what a core executed
        spec            CoreSpec: sizes, rates and costs of the cores of a card
        counter         numbers from the system counter, known when a launch has its times
        names           pipes, events between them, positions of tensors

`device_model.kernel` has what all kernels on simulated cores share. Read core/program.py and core/machine.py first.
"""
