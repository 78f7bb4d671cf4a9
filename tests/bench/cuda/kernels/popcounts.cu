// How many bits are set, for each block of 256 threads, 16 words by each thread: by an instruction, or by masks.
__device__ int by_masks(unsigned word) {
    word -= word >> 1 & 0x55555555u;
    word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
    return ((word + (word >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

template <bool HAS_MASKS>
__device__ void bits(const unsigned* x, int* z, int n) {
    int sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += HAS_MASKS ? by_masks(x[i]) : __popc(x[i]);
    sum = __reduce_add_sync(~0u, sum);
    if (threadIdx.x % 32 == 0) atomicAdd(&z[blockIdx.x], sum);
}

extern "C" __global__ void popcount_instruction(const unsigned* x, int* z, int n) { bits<false>(x, z, n); }

extern "C" __global__ void popcount_masks(const unsigned* x, int* z, int n) { bits<true>(x, z, n); }
