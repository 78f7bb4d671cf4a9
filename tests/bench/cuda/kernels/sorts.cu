// Each piece of 1024 numbers sorted by 512 threads in shared memory.
extern "C" __global__ void sort_bitonic(const int* x, int* z) {
    __shared__ int all[1024];
    int t = threadIdx.x, first = blockIdx.x * 1024;
    all[t] = x[first + t];
    all[t + 512] = x[first + t + 512];
    for (int size = 2; size <= 1024; size <<= 1)
        for (int apart = size / 2; apart; apart >>= 1) {
            __syncthreads();
            int low = 2 * t - (t & (apart - 1)), one = all[low], two = all[low + apart];
            if ((one > two) == ((low & size) == 0)) all[low] = two, all[low + apart] = one;
        }
    __syncthreads();
    z[first + t] = all[t];
    z[first + t + 512] = all[t + 512];
}
