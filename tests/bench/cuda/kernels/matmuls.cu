// Products of square matrices of n by n.
extern "C" __global__ void matmul_naive(const float* a, const float* b, float* c, int n) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum = fmaf(a[row * n + k], b[k * n + col], sum);
    c[row * n + col] = sum;
}

template <typename T, int SIDE>
__device__ void tiled(const T* a, const T* b, T* c, int n) {
    __shared__ T left[SIDE][SIDE], right[SIDE][SIDE];
    int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * SIDE + x, row = blockIdx.y * SIDE + y;
    T sum = 0;
    for (int k = 0; k < n; k += SIDE) {
        left[y][x] = a[row * n + k + x];
        right[y][x] = b[(k + y) * n + col];
        __syncthreads();
        for (int j = 0; j < SIDE; ++j) sum = fma(left[y][j], right[j][x], sum);
        __syncthreads();
    }
    c[row * n + col] = sum;
}

extern "C" __global__ void matmul_tile16(const float* a, const float* b, float* c, int n) {
    tiled<float, 16>(a, b, c, n);
}

extern "C" __global__ void matmul_tile32(const float* a, const float* b, float* c, int n) {
    tiled<float, 32>(a, b, c, n);
}

extern "C" __global__ void matmul_double(const double* a, const double* b, double* c, int n) {
    tiled<double, 16>(a, b, c, n);
}

// A block of 256 threads makes 64 by 64; each thread 4 by 4 of them, in registers.
extern "C" __global__ void matmul_register(const float* a, const float* b, float* c, int n) {
    __shared__ float left[16][64], right[16][64];
    int t = threadIdx.x, x = t % 16, y = t / 16, top = blockIdx.y * 64, side = blockIdx.x * 64;
    float sums[4][4] = {};
    for (int k = 0; k < n; k += 16) {
        for (int i = t; i < 1024; i += 256) {
            left[i % 16][i / 16] = a[(top + i / 16) * n + k + i % 16];
            right[i / 64][i % 64] = b[(k + i / 64) * n + side + i % 64];
        }
        __syncthreads();
        for (int j = 0; j < 16; ++j)
            for (int r = 0; r < 4; ++r)
                for (int s = 0; s < 4; ++s) sums[r][s] = fmaf(left[j][y * 4 + r], right[j][x * 4 + s], sums[r][s]);
        __syncthreads();
    }
    for (int r = 0; r < 4; ++r)
        for (int s = 0; s < 4; ++s) c[(top + y * 4 + r) * n + side + x * 4 + s] = sums[r][s];
}
