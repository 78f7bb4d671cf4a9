// Sums of n floats, 16 of them by each thread of blocks of 256.
__device__ float strided_sum(const float* x, int n) {
    float sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += x[i];
    return sum;
}

__device__ float tree_sum(float value) {
    __shared__ float sums[256];
    sums[threadIdx.x] = value;
    __syncthreads();
    for (int k = 128; k; k >>= 1) {
        if (threadIdx.x < k) sums[threadIdx.x] += sums[threadIdx.x + k];
        __syncthreads();
    }
    return sums[0];
}

extern "C" __global__ void reduce_atomic(const float* x, float* partial, float* total, unsigned* done, int n) {
    atomicAdd(total, strided_sum(x, n));
}

extern "C" __global__ void reduce_tree(const float* x, float* partial, float* total, unsigned* done, int n) {
    float sum = tree_sum(strided_sum(x, n));
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

extern "C" __global__ void reduce_shuffle(const float* x, float* partial, float* total, unsigned* done, int n) {
    __shared__ float sums[8];
    float sum = strided_sum(x, n);
    for (int k = 16; k; k >>= 1) sum += __shfl_down_sync(~0u, sum, k);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    sum = threadIdx.x < 8 ? sums[threadIdx.x] : 0;
    for (int k = 4; k; k >>= 1) sum += __shfl_down_sync(~0u, sum, k);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// The block that is done last adds what the others have left, and sets the counter back.
extern "C" __global__ void reduce_twopass(const float* x, float* partial, float* total, unsigned* done, int n) {
    __shared__ bool is_last;
    float sum = tree_sum(strided_sum(x, n));
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicAdd(done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;
    sum = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += 256) sum += ((volatile float*)partial)[i];
    sum = tree_sum(sum);
    if (threadIdx.x == 0) *total = sum, *done = 0;
}
