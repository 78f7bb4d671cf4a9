// Running sums inside each piece of 512 numbers.
extern "C" __global__ void scan_hillis(const int* x, int* z) {
    __shared__ int sums[2][512];
    int t = threadIdx.x, i = blockIdx.x * 512 + t, from = 0;
    sums[0][t] = x[i];
    __syncthreads();
    for (int k = 1; k < 512; k <<= 1) {
        sums[1 - from][t] = sums[from][t] + (t >= k ? sums[from][t - k] : 0);
        from = 1 - from;
        __syncthreads();
    }
    z[i] = sums[from][t];
}

extern "C" __global__ void scan_blelloch(const int* x, int* z) {
    __shared__ int sums[512];
    int t = threadIdx.x, i = blockIdx.x * 512 + t, one = x[i], two = x[i + 256];
    sums[t] = one;
    sums[t + 256] = two;
    int step = 1;
    for (int k = 256; k; k >>= 1, step <<= 1) {
        __syncthreads();
        if (t < k) sums[step * (2 * t + 2) - 1] += sums[step * (2 * t + 1) - 1];
    }
    if (t == 0) sums[511] = 0;
    for (int k = 1; k < 512; k <<= 1) {
        step >>= 1;
        __syncthreads();
        if (t < k) {
            int left = step * (2 * t + 1) - 1, right = step * (2 * t + 2) - 1, sum = sums[left];
            sums[left] = sums[right];
            sums[right] += sum;
        }
    }
    __syncthreads();
    z[i] = sums[t] + one;
    z[i + 256] = sums[t + 256] + two;
}

extern "C" __global__ void scan_shuffle(const int* x, int* z) {
    __shared__ int sums[16];
    int t = threadIdx.x, lane = t % 32, i = blockIdx.x * 512 + t, value = x[i];
    for (int k = 1; k < 32; k <<= 1) {
        int other = __shfl_up_sync(~0u, value, k);
        if (lane >= k) value += other;
    }
    if (lane == 31) sums[t / 32] = value;
    __syncthreads();
    for (int k = 0; k < t / 32; ++k) value += sums[k];
    z[i] = value;
}
