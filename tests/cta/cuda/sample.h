// What the samples share: inputs that Python computes too, times of blocks, and rows of JSON.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdint>
#include <functional>
#include <vector>

constexpr size_t kFlush = 256 << 20;
constexpr int kLaunches = 9;

// Number i of the inputs: a multiple of 1/1024 from 0 to 1, which float and half hold exactly.
inline float number(uint32_t i) {
    i = (i ^ i >> 16) * 2246822507u;
    i = (i ^ i >> 13) * 3266489909u;
    return float((i ^ i >> 16) >> 22) / 1024;
}

// When each warp began and ended: its SM's clock, and the card's in nanoseconds.
struct Spans {
    long long *begin, *end, *begin_ns, *end_ns;
};

__device__ inline long long now_ns() {
    long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

__device__ inline void begin_span(const Spans& spans) {
    int block = blockIdx.y * gridDim.x + blockIdx.x, warp = block * (blockDim.x / 32) + threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) spans.begin_ns[warp] = now_ns(), spans.begin[warp] = clock64();
}

__device__ inline void end_span(const Spans& spans) {
    int block = blockIdx.y * gridDim.x + blockIdx.x, warp = block * (blockDim.x / 32) + threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) spans.end[warp] = clock64(), spans.end_ns[warp] = now_ns();
}

__global__ void fill(int4* to, size_t pieces) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < pieces; i += (size_t)gridDim.x * blockDim.x)
        to[i] = make_int4(i, i, i, i);
}

template <typename T>
T* device_of(const std::vector<T>& values) {
    T* device;
    cudaMalloc(&device, values.size() * sizeof(T));
    cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyDefault);
    return device;
}

template <typename T>
std::vector<T> host_of(const T* device, size_t count) {
    std::vector<T> values(count);
    cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDefault);
    return values;
}

// A number that changes with every bit of the words and with their order.
inline uint64_t digest(const std::vector<uint32_t>& words) {
    uint64_t sum = 14695981039346656037ull;
    for (uint32_t word : words) sum = (sum ^ word) * 1099511628211ull;
    return sum;
}

// Calls `launch` several times, and prints the medians as members of a JSON object: with the inputs not in the L2, and
// with them there. `cycles`: the longest block by its own clock. `us`: from the first warp's begin to the last one's end.
inline void time_launches(int warps_of_block, int blocks, const std::function<void(Spans)>& launch) {
    static int4* other = nullptr;
    static Spans spans;
    if (!other) {
        cudaMalloc(&other, kFlush);
        for (long long** each : {&spans.begin, &spans.end, &spans.begin_ns, &spans.end_ns}) cudaMalloc(each, 1 << 20);
    }
    for (bool is_cold : {true, false}) {
        std::vector<double> cycles, us;
        for (int i = 0; i <= kLaunches; i++) {
            if (is_cold) fill<<<264, 512>>>(other, kFlush / 16);
            launch(spans);
            int warps = warps_of_block * blocks;
            auto begin = host_of(spans.begin, warps), end = host_of(spans.end, warps);
            auto begin_ns = host_of(spans.begin_ns, warps), end_ns = host_of(spans.end_ns, warps);
            long long longest = 0;
            for (int block = 0; block < blocks; block++) {
                auto first = begin.begin() + block * warps_of_block, last = end.begin() + block * warps_of_block;
                longest = std::max(longest, *std::max_element(last, last + warps_of_block) -
                                                *std::min_element(first, first + warps_of_block));
            }
            if (!i) continue;  // its instructions were cold
            cycles.push_back(longest);
            us.push_back((*std::max_element(end_ns.begin(), end_ns.end()) -
                          *std::min_element(begin_ns.begin(), begin_ns.end())) / 1e3);
        }
        std::sort(cycles.begin(), cycles.end());
        std::sort(us.begin(), us.end());
        const char* memory = is_cold ? "dram" : "l2";
        printf("\"%s_cycles\": %.0f, \"%s_least\": %.0f, \"%s_most\": %.0f, \"%s_us\": %.2f, ", memory,
               cycles[kLaunches / 2], memory, cycles.front(), memory, cycles.back(), memory, us[kLaunches / 2]);
    }
}
