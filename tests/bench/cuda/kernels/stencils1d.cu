// Weighted means of neighbours in a row.
extern "C" __global__ void stencil1_three(const float* x, float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) z[i] = 0.25f * x[i - 1] + 0.5f * x[i] + 0.25f * x[i + 1];
}

extern "C" __global__ void stencil1_nine(const float* x, float* z, int n) {
    const float weights[9] = {0.01f, 0.04f, 0.1f, 0.2f, 0.3f, 0.2f, 0.1f, 0.04f, 0.01f};
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 4 || i >= n - 4) return;
    float sum = 0;
    for (int k = -4; k <= 4; ++k) sum += weights[k + 4] * x[i + k];
    z[i] = sum;
}
