// Each row of m numbers with its mean taken off and its deviation made 1, by a block of 256 threads.
__device__ float of_block(float value) {
    __shared__ float parts[8];
    for (int k = 16; k; k >>= 1) value += __shfl_xor_sync(~0u, value, k);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int k = 0; k < 8; ++k) value += parts[k];
    return value;
}

extern "C" __global__ void layernorm_once(const float* x, const float* scale, float* z, int m) {
    size_t start = (size_t)blockIdx.x * m;
    float sum = 0, squares = 0;
    for (int j = threadIdx.x; j < m; j += 256) sum += x[start + j], squares += x[start + j] * x[start + j];
    float mean = of_block(sum) / m, inverse = rsqrtf(of_block(squares) / m - mean * mean + 1e-5f);
    for (int j = threadIdx.x; j < m; j += 256) z[start + j] = (x[start + j] - mean) * inverse * scale[j];
}

extern "C" __global__ void layernorm_twice(const float* x, const float* scale, float* z, int m) {
    size_t start = (size_t)blockIdx.x * m;
    float sum = 0, squares = 0;
    for (int j = threadIdx.x; j < m; j += 256) sum += x[start + j];
    float mean = of_block(sum) / m;
    for (int j = threadIdx.x; j < m; j += 256) squares += (x[start + j] - mean) * (x[start + j] - mean);
    float inverse = rsqrtf(of_block(squares) / m + 1e-5f);
    for (int j = threadIdx.x; j < m; j += 256) z[start + j] = (x[start + j] - mean) * inverse * scale[j];
}
