// Cycles per load from shared memory on one SM, when lanes share addresses: rows in the form of shared_memory.json.
// Each address depends on the value read before. The rows of tests/cta/data/sharing.json are what it printed on an H200:
//     nvcc -arch=sm_90 -O3 sharing.cu -o sharing && ./sharing > ../../cta/data/sharing.json
#include <algorithm>
#include <cstdio>

constexpr int kAccesses = 256, kRuns = 5, kWords = 8192;

template <int WIDTH>  // bytes per lane; 0 is ldmatrix x4
__global__ void chase(const int* offsets, long long* clocks, unsigned* sink) {
    extern __shared__ __align__(128) unsigned words[];
    for (int i = threadIdx.x; i < kWords; i += blockDim.x) words[i] = 0;
    unsigned at = (unsigned)__cvta_generic_to_shared(words) + offsets[threadIdx.x % 32], x, y, z, w;
    __syncthreads();
    long long begin = clock64();
#pragma unroll 16
    for (int i = 0; i < kAccesses; i++) {
        if constexpr (WIDTH == 4) {
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(at));
            at += x;
        } else if constexpr (WIDTH == 8) {
            asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(at));
            at += x + y;
        } else {
            if constexpr (WIDTH == 16)
                asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(at));
            else
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                             : "r"(at));
            at += x + y + z + w;
        }
    }
    long long end = clock64();
    sink[threadIdx.x] = at;
    clocks[2 * threadIdx.x] = begin;
    clocks[2 * threadIdx.x + 1] = end;
}

struct Kind {
    const char* name;
    int width;
    void (*kernel)(const int*, long long*, unsigned*);
};
struct Pattern {
    const char* name;
    int (*place)(int lane, const int* random);  // in units of the width
};

const Kind kinds[] = {{"ld4", 4, chase<4>}, {"ld8", 8, chase<8>}, {"ld16", 16, chase<16>}, {"ldm", 16, chase<0>}};
const Pattern patterns[] = {
    {"lane", [](int i, const int*) { return i; }},
    {"reversed", [](int i, const int*) { return 31 - i; }},
    {"lane / 2", [](int i, const int*) { return i / 2; }},
    {"lane / 4", [](int i, const int*) { return i / 4; }},
    {"lane / 16", [](int i, const int*) { return i / 16; }},
    {"lane % 2", [](int i, const int*) { return i % 2; }},
    {"lane % 4", [](int i, const int*) { return i % 4; }},
    {"lane % 16", [](int i, const int*) { return i % 16; }},
    {"lane ^ 2 shares", [](int i, const int*) { return i / 4 * 2 + i % 2; }},
    {"lane ^ 3 shares", [](int i, const int*) { return i / 4 * 2 + (i % 4 < 2 ? i % 4 : 3 - i % 4); }},
    {"lane ^ 4 shares", [](int i, const int*) { return i / 8 * 4 + i % 4; }},
    {"(lane + 1) / 2", [](int i, const int*) { return (i + 1) / 2; }},
    {"pairs in the lower half", [](int i, const int*) { return i < 16 ? i / 2 : i; }},
    {"pairs in the upper half", [](int i, const int*) { return i < 16 ? i : i / 2; }},
    {"each half in its own way", [](int i, const int*) { return i < 16 ? i / 2 : i / 4 * 2 + i % 2; }},
    {"pairs but lane 31", [](int i, const int*) { return i < 31 ? i / 2 : 40; }},
    {"all but lane 31", [](int i, const int*) { return i < 31 ? 0 : 40; }},
    {"pairs 8 places apart", [](int i, const int*) { return i / 2 * 8; }},
    {"lane ^ 2 shares, 8 places apart", [](int i, const int*) { return (i / 4 * 2 + i % 2) * 8; }},
    {"pairs, random", [](int i, const int* random) { return random[i / 2]; }},
    {"lane ^ 2 shares, random", [](int i, const int* random) { return random[i / 4 * 2 + i % 2]; }},
    {"lane ^ 4 shares, random", [](int i, const int* random) { return random[i / 8 * 4 + i % 4]; }},
    {"random of 16 places", [](int i, const int* random) { return random[i] % 16; }},
    {"random of 64 places", [](int i, const int* random) { return random[i] % 64; }},
    {"random", [](int i, const int* random) { return random[i]; }},
};

int main() {
    int random[32];
    unsigned state = 1;
    for (int& each : random) each = (state = state * 1664525u + 1013904223u) >> 16 & 2047;
    int* offsets;
    long long* clocks;
    unsigned* sink;
    cudaMallocManaged(&offsets, 32 * sizeof *offsets);
    cudaMallocManaged(&clocks, 2048 * sizeof *clocks);
    cudaMallocManaged(&sink, 1024 * sizeof *sink);
    printf("{\"what\": \"As shared_memory.json, on another H200 (CUDA 13.0): loads whose lanes share addresses; the program is "
           "tests/bench/cuda/sharing.cu\", \"rows\": [");
    const char* separator = "\n";
    for (const Kind& kind : kinds)
        for (const Pattern& pattern : patterns)
            for (int threads : {32, 128, 512, 1024}) {
                for (int lane = 0; lane < 32; lane++) offsets[lane] = pattern.place(lane, random) * kind.width;
                double best = 1e30;
                for (int run = 0; run < kRuns; run++) {
                    kind.kernel<<<1, threads, kWords * 4>>>(offsets, clocks, sink);
                    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
                    long long begin = clocks[0], end = clocks[1];
                    for (int i = 0; i < threads; i++) {
                        begin = std::min(begin, clocks[2 * i]);
                        end = std::max(end, clocks[2 * i + 1]);
                    }
                    best = std::min(best, double(end - begin) / kAccesses);
                }
                printf("%s{\"kind\": \"%s\", \"pattern\": \"%s\", \"offsets\": [", separator, kind.name, pattern.name);
                for (int lane = 0; lane < 32; lane++) printf(lane ? ", %d" : "%d", offsets[lane]);
                printf("], \"threads\": %d, \"cycles\": %.2f}", threads, best);
                separator = ",\n";
            }
    printf("\n]}\n");
}
