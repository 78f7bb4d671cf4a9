// The running sum of all numbers: each block of 256 threads scans 2048 of them and waits for the sum of those before.
// A block that has read that sum sets the flag back, so the next launch finds it unset.
extern "C" __global__ void prefix_chain(const unsigned* x, unsigned* z, unsigned* sums, unsigned* flags) {
    __shared__ unsigned warps[8], before;
    int t = threadIdx.x, lane = t % 32, first = blockIdx.x * 2048 + t * 8;
    unsigned own[8], sum = 0;
    for (int k = 0; k < 8; ++k) own[k] = sum += x[first + k];
    unsigned value = sum;
    for (int k = 1; k < 32; k <<= 1) {
        unsigned other = __shfl_up_sync(~0u, value, k);
        if (lane >= k) value += other;
    }
    if (lane == 31) warps[t / 32] = value;
    __syncthreads();
    for (int k = 0; k < t / 32; ++k) value += warps[k];
    if (t == 255) {
        unsigned earlier = 0;
        if (blockIdx.x > 0) {
            while (atomicAdd(&flags[blockIdx.x - 1], 0u) == 0) {}
            __threadfence();
            earlier = ((volatile unsigned*)sums)[blockIdx.x - 1];
            flags[blockIdx.x - 1] = 0;
        }
        ((volatile unsigned*)sums)[blockIdx.x] = earlier + value;
        __threadfence();
        if (blockIdx.x < gridDim.x - 1) atomicExch(&flags[blockIdx.x], 1u);
        before = earlier;
    }
    __syncthreads();
    for (int k = 0; k < 8; ++k) z[first + k] = before + value - sum + own[k];
}
