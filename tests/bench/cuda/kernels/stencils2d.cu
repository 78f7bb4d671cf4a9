// The five points of a cross, in a square of n by n; blocks of 32 by 8.
extern "C" __global__ void stencil2_plain(const float* x, float* z, int n) {
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y, i = r * n + c;
    if (c > 0 && r > 0 && c < n - 1 && r < n - 1) z[i] = 0.2f * (x[i] + x[i - 1] + x[i + 1] + x[i - n] + x[i + n]);
}

extern "C" __global__ void stencil2_shared(const float* x, float* z, int n) {
    __shared__ float tile[10][34];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1, c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    int i = r * n + c;
    tile[ty][tx] = x[i];
    if (tx == 1) tile[ty][0] = c > 0 ? x[i - 1] : 0;
    if (tx == 32) tile[ty][33] = c < n - 1 ? x[i + 1] : 0;
    if (ty == 1) tile[0][tx] = r > 0 ? x[i - n] : 0;
    if (ty == 8) tile[9][tx] = r < n - 1 ? x[i + n] : 0;
    __syncthreads();
    if (c > 0 && r > 0 && c < n - 1 && r < n - 1)
        z[i] = 0.2f * (tile[ty][tx] + tile[ty][tx - 1] + tile[ty][tx + 1] + tile[ty - 1][tx] + tile[ty + 1][tx]);
}
