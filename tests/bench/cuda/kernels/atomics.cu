// Each thread adds a number: all to one address, those of a warp to one, those of a block to one, each to its own.
extern "C" __global__ void atomic_one(const unsigned* x, unsigned* sums) {
    atomicAdd(&sums[0], x[blockIdx.x * 256 + threadIdx.x]);
}

extern "C" __global__ void atomic_warp(const unsigned* x, unsigned* sums) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    atomicAdd(&sums[i / 32], x[i]);
}

extern "C" __global__ void atomic_block(const unsigned* x, unsigned* sums) {
    atomicAdd(&sums[blockIdx.x], x[blockIdx.x * 256 + threadIdx.x]);
}

extern "C" __global__ void atomic_spread(const unsigned* x, unsigned* sums) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    atomicAdd(&sums[i], x[i]);
}
