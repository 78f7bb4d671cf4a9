// Of two vectors: a weighted sum, and the products' sum for each block of 256 threads, 16 of them by each thread.
extern "C" __global__ void saxpy_plain(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = fmaf(a, x[i], 0.5f * y[i]);
}

extern "C" __global__ void dot_shuffle(const float* x, const float* y, float* z, int n) {
    __shared__ float sums[8];
    float sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum = fmaf(x[i], y[i], sum);
    for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < 8; ++k) sum += sums[k];
        z[blockIdx.x] = sum;
    }
}
