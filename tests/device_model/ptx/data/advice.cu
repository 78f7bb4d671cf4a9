// Kernels with one mistake of speed each, and the same without it ("..._right"). A compiler makes advice.ptx of them, for
// sm_90, with line information; comments are left out.
extern "C" __global__ void column_sum(const float* x, float* y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x; float s = 0;
    for (int j = 0; j < 64; j++) s += x[j + row * 64];
    y[row] = s;
}
extern "C" __global__ void transpose(const float* x, float* y, int n) {
    __shared__ float t[32][32];
    int i = threadIdx.x, j = threadIdx.y, bx = blockIdx.x * 32, by = blockIdx.y * 32;
    for (int k = 0; k < 32; k += 8) t[j + k][i] = x[(by + j + k) * n + bx + i];
    __syncthreads();
    for (int k = 0; k < 32; k += 8) y[(bx + j + k) * n + by + i] = t[i][j + k];
}
extern "C" __global__ void odd_even(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; float v = x[i];
    if (i & 1) { for (int k = 0; k < 200; k++) v = v * 1.0001f + 0.5f; }
    else { for (int k = 0; k < 200; k++) v = v * 0.999f - 0.25f; }
    x[i] = v;
}
extern "C" __global__ void strided(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i * 8];
}
extern "C" __global__ void counts(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; atomicAdd(y + (x[i] & 1), 1);
}
extern "C" __global__ void column_sum_right(const float* x, float* y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x; float s = 0;
    for (int j = 0; j < 64; j++) s += x[j * 131072 + row];
    y[row] = s;
}
extern "C" __global__ void transpose_right(const float* x, float* y, int n) {
    __shared__ float t[32][33];
    int i = threadIdx.x, j = threadIdx.y, bx = blockIdx.x * 32, by = blockIdx.y * 32;
    for (int k = 0; k < 32; k += 8) t[j + k][i] = x[(by + j + k) * n + bx + i];
    __syncthreads();
    for (int k = 0; k < 32; k += 8) y[(bx + j + k) * n + by + i] = t[i][j + k];
}
extern "C" __global__ void odd_even_right(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; float v = x[i];
    if (i & 32) { for (int k = 0; k < 200; k++) v = v * 1.0001f + 0.5f; }
    else { for (int k = 0; k < 200; k++) v = v * 0.999f - 0.25f; }
    x[i] = v;
}
extern "C" __global__ void strided_right(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i];
}
extern "C" __global__ void counts_right(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; atomicAdd(y + i, 1 + (x[i] & 1));
}
extern "C" __global__ void full(float* x, int n) {
    __shared__ float t[12000];
    int i = blockIdx.x * blockDim.x + threadIdx.x; t[threadIdx.x] = x[i]; __syncthreads(); x[i] = t[threadIdx.x ^ 1];
}
extern "C" __global__ void full_right(float* x, int n) {
    __shared__ float t[11000];
    int i = blockIdx.x * blockDim.x + threadIdx.x; t[threadIdx.x] = x[i]; __syncthreads(); x[i] = t[threadIdx.x ^ 1];
}
