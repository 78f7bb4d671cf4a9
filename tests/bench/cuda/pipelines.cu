// Pipelines of cp.async on an H200, in the form of the rows of cp_async.json: each block takes tiles one after the
// other, copies them into `stages` buffers, and does `fma` dependent multiply-adds with each. It prints a row for each
// line of its input (blocks threads tile_bytes tiles fma stages l2_hit):
//     nvcc -arch=sm_90 -O3 pipelines.cu -o pipelines && ./pipelines < rows.txt
#include <algorithm>
#include <cstdio>

constexpr int kLaunches = 6;           // the first warms instructions and pages up; the median of the others counts
constexpr size_t kBytes = 24ull << 30;  // every launch from DRAM reads bytes that none before it has read
extern __shared__ __align__(16) char shared[];

template <int STAGES>
__global__ void pipeline(const char* data, size_t of_block, int bytes, int tiles, int fma, float* sink,
                         unsigned long long* sum) {
    const char* from = data + blockIdx.x * of_block;
    float total = 0;
    auto load = [&](int slot, int t) {
        for (int i = threadIdx.x * 16; i < bytes; i += blockDim.x * 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                             (unsigned)__cvta_generic_to_shared(shared + slot * bytes + i)),
                         "l"(from + (size_t)t * bytes + i)
                         : "memory");
    };
    auto compute = [&](int slot) {
        float value = ((float*)(shared + slot * bytes))[threadIdx.x % (bytes / 4)];
        for (int i = 0; i < fma; i++) value = fmaf(value, 1.0001f, 0.5f);
        total += value;
    };
    long long start = clock64();
    if constexpr (STAGES == 1) {
        for (int t = 0; t < tiles; t++) {
            load(0, t);
            asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
            __syncthreads();
            compute(0);
            __syncthreads();
        }
    } else {
        for (int t = 0; t < STAGES - 1; t++) {
            load(t, t);
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
        for (int t = 0; t < tiles; t++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            __syncthreads();
            int slot = t % STAGES, next = t + STAGES - 1;
            if (next < tiles) load(next % STAGES, next);
            asm volatile("cp.async.commit_group;" ::: "memory");
            compute(slot);
        }
    }
    long long end = clock64();
    if (total == 12345) *sink = total;
    if (!threadIdx.x) atomicAdd(sum, (unsigned long long)(end - start));
}

using Kernel = void (*)(const char*, size_t, int, int, int, float*, unsigned long long*);

int main() {
    const Kernel kernels[] = {pipeline<1>, pipeline<2>, pipeline<3>, pipeline<4>, pipeline<5>, pipeline<6>};
    for (Kernel kernel : kernels) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448);
    char* data;
    float* sink;
    unsigned long long *sum, cycles[kLaunches];
    cudaMalloc(&data, kBytes);
    cudaMemset(data, 0, kBytes);
    cudaMalloc(&sink, 4);
    cudaMalloc(&sum, sizeof *sum);
    size_t next = 0;  // bytes of `data` that no launch has read
    int blocks, threads, bytes, tiles, fma, stages, l2_hit;
    while (scanf("%d %d %d %d %d %d %d", &blocks, &threads, &bytes, &tiles, &fma, &stages, &l2_hit) == 7) {
        size_t of_block = l2_hit ? 0 : (size_t)tiles * bytes;
        for (unsigned long long& each : cycles) {
            if (next + blocks * of_block > kBytes) next = 0;
            cudaMemset(sum, 0, sizeof *sum);
            kernels[stages - 1]<<<blocks, threads, stages * bytes>>>(
                data + (l2_hit ? 0 : next), of_block, bytes, tiles, fma, sink, sum);
            cudaMemcpy(&each, sum, sizeof each, cudaMemcpyDefault);
            next += blocks * of_block;
        }
        std::sort(cycles + 1, cycles + kLaunches);
        printf("{\"kind\": \"pipe\", \"blocks\": %d, \"threads\": %d, \"tile_bytes\": %d, \"tiles\": %d, \"fma\": %d, "
               "\"stages\": %d, \"l2_hit\": %s, \"cycles_per_tile\": %.1f}\n",
               blocks, threads, bytes, tiles, fma, stages, l2_hit ? "true" : "false",
               cycles[kLaunches / 2] / double(blocks) / tiles);
    }
    fprintf(stderr, "%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
