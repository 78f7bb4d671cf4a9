// Sums of a warp, `rounds` of them one after the other: by shuffles, or through shared memory.
extern "C" __global__ void warpsum_shuffle(const float* x, float* z, int rounds) {
    int i = blockIdx.x * 256 + threadIdx.x;
    float value = x[i];
    for (int round = 0; round < rounds; ++round) {
        for (int k = 16; k; k >>= 1) value += __shfl_xor_sync(~0u, value, k);
        value *= 0.03f;
    }
    z[i] = value;
}

extern "C" __global__ void warpsum_shared(const float* x, float* z, int rounds) {
    __shared__ volatile float all[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    float value = x[i];
    for (int round = 0; round < rounds; ++round) {
        for (int k = 16; k; k >>= 1) {
            all[t] = value;
            __syncwarp();
            value += all[t ^ k];
            __syncwarp();
        }
        value *= 0.03f;
    }
    z[i] = value;
}
