// A sparse matrix, by rows, times a vector: a thread for each row, or a warp.
extern "C" __global__ void spmv_scalar(const int* starts, const int* columns, const float* values, const float* x,
                                       float* z, int n) {
    int row = blockIdx.x * 128 + threadIdx.x;
    if (row >= n) return;
    float sum = 0;
    for (int i = starts[row]; i < starts[row + 1]; ++i) sum = fmaf(values[i], x[columns[i]], sum);
    z[row] = sum;
}

extern "C" __global__ void spmv_vector(const int* starts, const int* columns, const float* values, const float* x,
                                       float* z, int n) {
    int row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= n) return;
    float sum = 0;
    for (int i = starts[row] + threadIdx.x % 32; i < starts[row + 1]; i += 32)
        sum = fmaf(values[i], x[columns[i]], sum);
    for (int k = 16; k; k >>= 1) sum += __shfl_down_sync(~0u, sum, k);
    if (threadIdx.x % 32 == 0) z[row] = sum;
}
