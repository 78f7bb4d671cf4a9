// Transposes of a square of n by n; blocks of 32 by 8 move 32 by 32.
extern "C" __global__ void transpose_naive(const float* x, float* z, int n) {
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) z[c * n + r + k] = x[(r + k) * n + c];
}

template <int WIDTH>
__device__ void through_shared(const float* x, float* z, int n) {
    __shared__ float tile[32][WIDTH];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = x[(r + k) * n + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) z[(r + k) * n + c] = tile[threadIdx.x][threadIdx.y + k];
}

extern "C" __global__ void transpose_tiled(const float* x, float* z, int n) { through_shared<32>(x, z, n); }

extern "C" __global__ void transpose_padded(const float* x, float* z, int n) { through_shared<33>(x, z, n); }
