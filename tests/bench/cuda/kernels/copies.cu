// Copies of n floats: how wide, how far apart and how aligned the accesses are.
extern "C" __global__ void copy_float(const float* x, float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i];
}

extern "C" __global__ void copy_float4(const float4* x, float4* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) z[i] = x[i];
}

extern "C" __global__ void copy_strided(const float* x, float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, part = n / 8;
    if (i < n) z[i] = x[i % part * 8 + i / part];
}

extern "C" __global__ void copy_misaligned(const float* x, float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) z[i] = x[i + 1];
}
