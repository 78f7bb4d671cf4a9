// The seven points of a cross in a cube of n by n by n: a thread for each cell, or one for each column.
extern "C" __global__ void stencil3_cells(const float* x, float* z, int n) {
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y, d = blockIdx.z, i = (d * n + r) * n + c;
    if (c == 0 || r == 0 || d == 0 || c == n - 1 || r == n - 1 || d == n - 1) return;
    z[i] = 0.4f * x[i] + 0.1f * (x[i - 1] + x[i + 1] + x[i - n] + x[i + n] + x[i - n * n] + x[i + n * n]);
}

extern "C" __global__ void stencil3_columns(const float* x, float* z, int n) {
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y, i = r * n + c;
    if (c == 0 || r == 0 || c == n - 1 || r == n - 1) return;
    float below = x[i], here = x[i += n * n];
    for (int d = 1; d < n - 1; ++d, i += n * n) {
        float above = x[i + n * n];
        z[i] = 0.4f * here + 0.1f * (x[i - 1] + x[i + 1] + x[i - n] + x[i + n] + below + above);
        below = here;
        here = above;
    }
}
