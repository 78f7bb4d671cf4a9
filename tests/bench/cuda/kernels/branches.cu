// Half of the threads multiply and half of them take roots, 32 times: every other lane, or every other warp.
__device__ float either(float value, bool is_root) {
    if (is_root)
        for (int k = 0; k < 32; ++k) value = sqrtf(value * value + 1.5f);
    else
        for (int k = 0; k < 32; ++k) value = fmaf(value, 0.75f, 0.5f) + fmaf(value, value, 0.25f) * 0.125f;
    return value;
}

extern "C" __global__ void branch_lane(const float* x, float* z) {
    int i = blockIdx.x * 256 + threadIdx.x;
    z[i] = either(x[i], i & 1);
}

extern "C" __global__ void branch_warp(const float* x, float* z) {
    int i = blockIdx.x * 256 + threadIdx.x;
    z[i] = either(x[i], i & 32);
}
