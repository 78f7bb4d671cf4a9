// The softmax of each row of m numbers: a block of 256 threads for a row, or a warp.
struct Max { __device__ float operator()(float a, float b) { return fmaxf(a, b); } };
struct Sum { __device__ float operator()(float a, float b) { return a + b; } };

template <typename Join>
__device__ float of_warp(float value, Join join) {
    for (int k = 16; k; k >>= 1) value = join(value, __shfl_xor_sync(~0u, value, k));
    return value;
}

template <typename Join>
__device__ float of_block(float value, Join join) {
    __shared__ float parts[8];
    value = of_warp(value, join);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int k = 1; k < 8; ++k) value = join(value, parts[k]);
    return value;
}

extern "C" __global__ void softmax_block(const float* x, float* z, int m) {
    const float* row = x + (size_t)blockIdx.x * m;
    float most = -3e38f, sum = 0;
    for (int j = threadIdx.x; j < m; j += 256) most = fmaxf(most, row[j]);
    most = of_block(most, Max());
    for (int j = threadIdx.x; j < m; j += 256) sum += expf(row[j] - most);
    sum = of_block(sum, Sum());
    for (int j = threadIdx.x; j < m; j += 256) z[(size_t)blockIdx.x * m + j] = expf(row[j] - most) / sum;
}

extern "C" __global__ void softmax_warp(const float* x, float* z, int m) {
    size_t start = (size_t)(blockIdx.x * 8 + threadIdx.x / 32) * m;
    const float* row = x + start;
    float most = -3e38f, sum = 0;
    for (int j = threadIdx.x % 32; j < m; j += 32) most = fmaxf(most, row[j]);
    most = of_warp(most, Max());
    for (int j = threadIdx.x % 32; j < m; j += 32) sum += expf(row[j] - most);
    sum = of_warp(sum, Sum());
    for (int j = threadIdx.x % 32; j < m; j += 32) z[start + j] = expf(row[j] - most) / sum;
}
