// Bursts of cp.async on an H200: how long they take to issue and to arrive, from the L2 and from DRAM, by the number of
// blocks and threads. The rows of tests/cta/data/bursts.json are what it printed:
//     nvcc -arch=sm_90 -O3 bursts.cu -o bursts && ./bursts
#include <cstdio>
#include <initializer_list>

constexpr int kRuns = 96;
constexpr size_t kBytes = 16ull << 30;
extern __shared__ char shared[];

__device__ void copy16(void* to, const void* from) {
    unsigned address = __cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}

__global__ void burst(const char* data, size_t of_block, int bytes, int idle, unsigned long long* sums) {
    const char* from = data + blockIdx.x * of_block;
    long long issue = 0, wait = 0, barrier = 0;
    int begin = clock();
    for (int run = 0; run < kRuns; run++) {
        __syncthreads();
        int start = clock();
#pragma unroll 1
        for (int at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16)
            copy16(shared + at, from + (size_t)run * bytes + at);
        int issued = clock();
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        int arrived = clock();
        __syncthreads();
        int passed = clock();
        issue += issued - start, wait += arrived - start, barrier += passed - start;
        if (idle)
            while ((int)clock() - passed < idle) {}
    }
    if (threadIdx.x) return;
    atomicAdd(sums, (unsigned long long)issue);
    atomicAdd(sums + 1, (unsigned long long)wait);
    atomicAdd(sums + 2, (unsigned long long)barrier);
    atomicAdd(sums + 3, (unsigned long long)((int)clock() - begin));
}

int main() {
    char* data;
    unsigned long long *sums, host[4];
    cudaMalloc(&data, kBytes);
    cudaMemset(data, 0, kBytes);
    cudaMalloc(&sums, sizeof host);
    size_t next = 0;  // bytes of `data` that no launch has read
    for (int dram : {0, 1})
        for (int blocks : {1, 66, 132})
            for (int threads : {64, 128, 256, 512})
                for (int bytes : {2048, 4096, 8192, 16384, 32768})
                    for (int idle : {0, 500, 1000, 2000, 4000}) {
                        if (dram && blocks == 1 || threads == 512 && blocks == 66) continue;
                        if (idle && (!dram || threads != 128)) continue;
                        size_t of_block = dram ? (size_t)kRuns * bytes : 0;
                        for (int launch = 0; launch < 2; launch++) {  // the first warms instructions and pages up
                            if (next + blocks * of_block > kBytes) next = 0;
                            cudaMemset(sums, 0, sizeof host);
                            burst<<<blocks, threads, bytes>>>(data + next, of_block, bytes, idle, sums);
                            next += blocks * of_block;
                        }
                        cudaMemcpy(host, sums, sizeof host, cudaMemcpyDefault);
                        double n = (double)kRuns * blocks;
                        printf("{\"kind\": \"burst\", \"blocks\": %d, \"threads\": %d, \"bytes\": %d, \"l2_hit\": %s, "
                               "\"idle\": %d, \"issue\": %.1f, \"wait\": %.1f, \"barrier\": %.1f, \"cycles\": %.1f}\n",
                               blocks, threads, bytes, dram ? "false" : "true", idle, host[0] / n, host[1] / n,
                               host[2] / n, host[3] / n);
                    }
    printf("// %s\n", cudaGetErrorString(cudaGetLastError()));
}
