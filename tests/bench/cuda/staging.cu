// Which calls of pageable copies wait, and how long the host takes for its own part. What it printed on an H200 (driver
// 580) is in tests/conformance/data/pageable.json, in the profile h200 (ring_bytes), and in docs/accuracy.md.
//     nvcc -arch=sm_90 -O2 -std=c++17 staging.cu -o staging && ./staging
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

using Call = std::function<void()>;
constexpr size_t K = 1024, M = K * K, kBytes = 64 * M, kSwept = 8 * kBytes;
constexpr int kRuns = 7, kStreams = 12;

char *device, *pinned, *source, *target, *swept;
cudaStream_t streams[kStreams];

__global__ void spin(long ns) {
    long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < ns);
}

double now_us() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

double timed(const Call& call) {
    double begin = now_us();
    call();
    return now_us() - begin;
}

double median(const Call& before, const Call& call, int runs = kRuns) {
    std::vector<double> us;
    for (int run = 0; run < runs; run++) {
        before();
        us.push_back(timed(call));
        cudaDeviceSynchronize();
    }
    std::sort(us.begin(), us.end());
    return us[us.size() / 2];
}

void busy(double us, cudaStream_t stream) { spin<<<1, 1, 0, stream>>>((long)(us * 1000)); }

void up(size_t bytes, cudaStream_t stream, size_t offset = 0) {
    cudaMemcpyAsync(device + offset, source + offset, bytes, cudaMemcpyHostToDevice, stream);
}

void down(size_t bytes, cudaStream_t stream) {
    cudaMemcpyAsync(target, device, bytes, cudaMemcpyDeviceToHost, stream);
}

void rows(size_t bytes, cudaStream_t stream) {  // of 4 KB; less is one row
    size_t width = std::min(bytes, 4 * K);
    cudaMemcpy2DAsync(device, 8 * K, source, 4 * K, width, bytes / width, cudaMemcpyHostToDevice, stream);
}

void others_behind_full_buffers() {
    cudaStream_t a = streams[0], b = streams[1];
    auto chunks = [=] { busy(2000, a), up(256 * K, a), up(256 * K, a); };
    auto ring = [=] {
        busy(2000, a);
        for (int copy = 0; copy < 62; copy++) up(64 * K, a);
    };
    for (const Call& full : {Call(chunks), Call(ring)}) {
        printf("full: up 4 KB %.0f us", median(full, [=] { up(4 * K, b); }));
        printf(", 64 KB %.0f", median(full, [=] { up(64 * K, b); }));
        printf(", 256 KB %.0f", median(full, [=] { up(256 * K, b); }));
        printf(", 1 MB %.0f", median(full, [=] { up(M, b); }));
        printf(", down 4 KB %.0f", median(full, [=] { down(4 * K, b); }));
        printf(", 1 MB %.0f", median(full, [=] { down(M, b); }));
        printf(", rows of 64 KB %.0f\n", median(full, [=] { rows(64 * K, b); }));
    }
}

void four_behind_a_kernel() {
    for (size_t bytes : {64 * K + 4, 128 * K, M, M + 4, 2 * M, 2 * M + 4}) {
        printf("four of %zu:", bytes);
        busy(4000, streams[0]);
        for (int copy = 0; copy < 4; copy++) printf(" %.0f", timed([=] { up(bytes, streams[0], copy * 4 * M); }));
        cudaDeviceSynchronize();
        puts("");
    }
    for (size_t bytes : {K / 4, 4 * K, 64 * K}) {
        printf("four of rows, %zu:", bytes);
        busy(4000, streams[0]);
        for (int copy = 0; copy < 4; copy++) printf(" %.0f", timed([=] { rows(bytes, streams[0]); }));
        cudaDeviceSynchronize();
        puts("");
    }
}

void copies_in_the_ring() {
    for (size_t bytes : {64 * K, 48 * K, 32 * K, 24 * K, 16 * K, 12 * K, 8 * K, 6 * K}) {
        int copies = 0;
        busy(30000, streams[0]);
        while (copies < 1000 && timed([=] { up(bytes, streams[0]); }) < 1500) copies++;
        cudaDeviceSynchronize();
        printf("ring: %d copies of %zu bytes\n", copies, bytes);
    }
}

void copies_beside_one_that_waits() {
    for (int stream = 1; stream < kStreams; stream++) {
        auto blocked = [] {
            busy(2000, streams[0]);
            cudaMemcpyAsync(pinned, device, M, cudaMemcpyDeviceToHost, streams[0]);
        };
        auto done = [=](const Call& copy) {
            return median(blocked, [=] { copy(), cudaStreamSynchronize(streams[stream]); });
        };
        printf("stream %d, while one to the host waits in stream 0: pageable %.0f us", stream,
               done([=] { down(4 * K, streams[stream]); }));
        printf(", pinned %.0f\n", done([=] {
                   cudaMemcpyAsync(pinned, device, 4 * K, cudaMemcpyDeviceToHost, streams[stream]);
               }));
    }
}

void rates() {
    cudaStream_t a = streams[0];
    auto nothing = [] {};
    auto sweep = [] {
        for (size_t at = 0; at < kSwept; at += 64) swept[at]++;
    };
    auto write = [] { memset(source, 2, kBytes); };
    auto wait = [=] { busy(2000, a), cudaDeviceSynchronize(); };
    for (size_t bytes = 64 * K; bytes <= kBytes; bytes *= 2) {
        printf("%zu KB: up %.1f us", bytes / K, median(nothing, [=] { up(bytes, a); }));
        printf(", swept %.1f", median(sweep, [=] { up(bytes, a); }, 3));
        printf(", written %.1f", median(write, [=] { up(bytes, a); }, 3));
        printf(", waited %.1f", median(wait, [=] { up(bytes, a); }));
        printf("; down %.1f", median(nothing, [=] { down(bytes, a); }));
        printf(", swept %.1f\n", median(sweep, [=] { down(bytes, a); }, 3));
    }
}

int main() {
    cudaMalloc(&device, kBytes);
    cudaMallocHost(&pinned, kBytes);
    for (char** memory : {&source, &target}) *memory = (char*)memset(malloc(kBytes), 1, kBytes);
    swept = (char*)memset(malloc(kSwept), 1, kSwept);
    for (cudaStream_t& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    busy(1, streams[0]), up(M, streams[0]), down(M, streams[0]), cudaDeviceSynchronize();
    others_behind_full_buffers();
    four_behind_a_kernel();
    copies_in_the_ring();
    copies_beside_one_that_waits();
    rates();
    puts(cudaGetErrorString(cudaGetLastError()));
}
