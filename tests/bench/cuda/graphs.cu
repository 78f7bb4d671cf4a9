// What calls about graphs cost the host, and a node the device, by the number of nodes, their kind and their edges.
// Also what a launch, a record and a capture cost behind a wait of some length: first, second and third call.
//
//     nvcc -O2 -std=c++17 -arch=sm_90 graphs.cu -o graphs && ./graphs graph_costs.json
//
// Each number is the median of several calls, in microseconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#define OK(call)                                                                                  \
    do {                                                                                          \
        cudaError_t error_ = (call);                                                              \
        if (error_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s: %s at line %d\n", #call, cudaGetErrorName(error_), __LINE__);    \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

using Clock = std::chrono::steady_clock;
static double us_of(const std::function<void()>& call) {
    auto begin = Clock::now();
    call();
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}
static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

__global__ void spin(long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) {}
}
static const long long TWO_US = 3960;  // at 1980 MHz

static char *device, *pinned;
static FILE* out;
static const char* comma = "";

// Nodes of one kind; "mixed" are kernels and copies in turn. "chain": each behind the one before; "wide": eight chains side by side; "twice": each behind the
// two before it, so two edges for each node.
static cudaGraph_t graph_of(const std::string& kind, const std::string& shape, int nodes, long long cycles) {
    cudaGraph_t graph;
    OK(cudaGraphCreate(&graph, 0));
    std::vector<cudaGraphNode_t> made;
    for (int index = 0; index < nodes; index++) {
        std::vector<cudaGraphNode_t> before;
        if (shape == "chain" && index) before = {made[index - 1]};
        if (shape == "wide" && index >= 8) before = {made[index - 8]};
        if (shape == "twice" && index) before = {made[index - 1]};
        if (shape == "twice" && index > 1) before.push_back(made[index - 2]);
        cudaGraphNode_t node;
        if (kind == "kernel" || (kind == "mixed" && index % 2 == 0)) {
            cudaKernelNodeParams params = {};
            void* arguments[] = {&cycles};
            params.func = (void*)spin;
            params.gridDim = params.blockDim = dim3(1);
            params.kernelParams = arguments;
            OK(cudaGraphAddKernelNode(&node, graph, before.data(), before.size(), &params));
        } else if (kind == "memset") {
            cudaMemsetParams params = {};
            params.dst = device + 512 * (index % 8);
            params.elementSize = 1;
            params.width = 512;
            params.height = 1;
            OK(cudaGraphAddMemsetNode(&node, graph, before.data(), before.size(), &params));
        } else if (kind == "host") {
            cudaHostNodeParams params = {};
            params.fn = [](void*) {};
            OK(cudaGraphAddHostNode(&node, graph, before.data(), before.size(), &params));
        } else if (kind == "if") {  // its body is one kernel, which runs
            cudaGraphNodeParams params = {cudaGraphNodeTypeConditional}, body = {cudaGraphNodeTypeKernel};
            OK(cudaGraphConditionalHandleCreate(&params.conditional.handle, graph, 1, cudaGraphCondAssignDefault));
            params.conditional.type = cudaGraphCondTypeIf;
            params.conditional.size = 1;
            OK(cudaGraphAddNode(&node, graph, before.data(), nullptr, before.size(), &params));
            void* arguments[] = {&cycles};
            body.kernel.func = (void*)spin;
            body.kernel.gridDim = body.kernel.blockDim = dim3(1);
            body.kernel.kernelParams = arguments;
            cudaGraphNode_t inner;
            OK(cudaGraphAddNode(&inner, params.conditional.phGraph_out[0], nullptr, nullptr, 0, &body));
        } else if (kind == "record") {
            static cudaEvent_t event = nullptr;
            if (!event) OK(cudaEventCreate(&event));
            OK(cudaGraphAddEventRecordNode(&node, graph, before.data(), before.size(), event));
        } else if (kind == "h2d" || kind == "d2h" || kind == "d2d" || kind == "mixed") {
            char *to = device + 512 * (index % 8), *from = device + 65536;
            OK(cudaGraphAddMemcpyNode1D(&node, graph, before.data(), before.size(), kind == "d2h" ? pinned : to,
                                        kind == "d2h" || kind == "d2d" ? from : pinned, 512, cudaMemcpyDefault));
        } else {
            OK(cudaGraphAddEmptyNode(&node, graph, before.data(), before.size()));
        }
        made.push_back(node);
    }
    return graph;
}

static void row(const std::string& kind, const std::string& shape, int nodes, cudaStream_t stream, int runs) {
    cudaGraph_t graph = graph_of(kind, shape, nodes, TWO_US), other = graph_of(kind, shape, nodes, TWO_US + 10);
    std::vector<double> instantiate, upload, uploaded, first, later, update, destroy, device_us;
    cudaEvent_t start, end;
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    for (int run = 0; run < runs; run++) {
        cudaGraphExec_t exec, cold;
        if (kind == "if" && run) {  // such a graph can be instantiated once: 801 the second time
            graph = graph_of(kind, shape, nodes, TWO_US);
            other = graph_of(kind, shape, nodes, TWO_US + 10);
        }
        OK(cudaDeviceSynchronize());
        instantiate.push_back(us_of([&] { OK(cudaGraphInstantiate(&exec, graph, 0)); }));
        upload.push_back(us_of([&] { OK(cudaGraphUpload(exec, stream)); }));
        OK(cudaStreamSynchronize(stream));
        uploaded.push_back(us_of([&] { OK(cudaGraphLaunch(exec, stream)); }));
        OK(cudaStreamSynchronize(stream));
        OK(cudaGraphInstantiate(&cold, kind == "if" ? other : graph, 0));
        first.push_back(us_of([&] { OK(cudaGraphLaunch(cold, stream)); }));
        OK(cudaStreamSynchronize(stream));
        for (int again = 0; again < 5; again++) {
            OK(cudaEventRecord(start, stream));
            later.push_back(us_of([&] { OK(cudaGraphLaunch(cold, stream)); }));
            OK(cudaEventRecord(end, stream));
            OK(cudaStreamSynchronize(stream));
            float ms;
            OK(cudaEventElapsedTime(&ms, start, end));
            device_us.push_back(1000 * ms);
        }
        cudaGraphExecUpdateResultInfo info;
        update.push_back(us_of([&] { cudaGraphExecUpdate(exec, run % 2 ? graph : other, &info); }));
        cudaGetLastError();  // of an update of IF nodes
        destroy.push_back(us_of([&] { OK(cudaGraphExecDestroy(exec)); }));
        OK(cudaGraphExecDestroy(cold));
    }
    fprintf(out, "%s  {\"kind\": \"%s\", \"shape\": \"%s\", \"nodes\": %d, \"instantiate\": %.2f, \"upload\": %.2f, "
           "\"launch_uploaded\": %.2f, \"launch_first\": %.2f, \"launch\": %.2f, \"update\": %.2f, \"destroy\": %.2f, "
           "\"device\": %.2f}",
           comma, kind.c_str(), shape.c_str(), nodes, median(instantiate), median(upload),
           median(uploaded), median(first), median(later), median(update), median(destroy), median(device_us));
    comma = ",\n";
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphDestroy(other));
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(end));
}

// A captured chain: what BeginCapture, each launch in it and EndCapture take.
static void capture_row(int nodes, cudaStream_t stream, int runs) {
    std::vector<double> begin, launch, end;
    for (int run = 0; run < runs; run++) {
        cudaGraph_t graph;
        begin.push_back(us_of([&] { OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)); }));
        double all = us_of([&] {
            for (int index = 0; index < nodes; index++) spin<<<1, 1, 0, stream>>>(TWO_US);
        });
        launch.push_back(all / nodes);
        end.push_back(us_of([&] { OK(cudaStreamEndCapture(stream, &graph)); }));
        OK(cudaGraphDestroy(graph));
    }
    fprintf(out, "%s  {\"kind\": \"capture\", \"nodes\": %d, \"begin\": %.2f, \"launch\": %.2f, \"end\": %.2f}",
           comma, nodes, median(begin), median(launch), median(end));
    comma = ",\n";
}

// Calls behind a synchronisation that has waited for a kernel of *wait_us*: the first, second and third of each kind.
static void wait_row(int wait_us, cudaStream_t stream, int runs) {
    const char* names[] = {"launch", "record", "begin", "instantiate", "graph_launch"};
    std::vector<double> costs[5][3];
    cudaEvent_t event;
    OK(cudaEventCreate(&event));
    cudaGraph_t graph = graph_of("kernel", "chain", 1, TWO_US), captured;
    cudaGraphExec_t exec, fresh;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int run = 0; run < runs; run++)
        for (int kind = 0; kind < 5; kind++) {
            if (wait_us) spin<<<1, 1, 0, stream>>>(1980LL * wait_us);
            OK(cudaStreamSynchronize(stream));
            for (int place = 0; place < 3; place++) {
                double us = 0;
                if (kind == 0) us = us_of([&] { spin<<<1, 1, 0, stream>>>(100); });
                if (kind == 1) us = us_of([&] { OK(cudaEventRecord(event, stream)); });
                if (kind == 2) {
                    us = us_of([&] { OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)); });
                    OK(cudaStreamEndCapture(stream, &captured));
                    OK(cudaGraphDestroy(captured));
                }
                if (kind == 3) {
                    us = us_of([&] { OK(cudaGraphInstantiate(&fresh, graph, 0)); });
                    OK(cudaGraphExecDestroy(fresh));
                }
                if (kind == 4) us = us_of([&] { OK(cudaGraphLaunch(exec, stream)); });
                costs[kind][place].push_back(us);
            }
            OK(cudaStreamSynchronize(stream));
        }
    for (int kind = 0; kind < 5; kind++)
        fprintf(out, "%s  {\"kind\": \"behind a wait\", \"wait_us\": %d, \"call\": \"%s\", \"first\": %.2f, \"second\": %.2f, "
               "\"third\": %.2f}",
               comma, wait_us, names[kind], median(costs[kind][0]), median(costs[kind][1]),
                median(costs[kind][2])), comma = ",\n";
}

int main(int, char** argv) {
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&device, 1 << 20));
    OK(cudaMallocHost(&pinned, 1 << 20));
    spin<<<1, 1, 0, stream>>>(1980000LL * 200);  // clocks rise
    OK(cudaStreamSynchronize(stream));
    out = tmpfile();  // everything is called once before it counts
    row("kernel", "chain", 100, stream, 20);
    row("memset", "chain", 100, stream, 5);
    row("h2d", "chain", 100, stream, 5);
    capture_row(100, stream, 20);
    out = fopen(argv[1], "w");
    comma = "";
    fprintf(out, "[\n");
    for (int nodes : {1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 250, 300, 400, 500, 700, 1000, 1500, 2000})
        row("kernel", "chain", nodes, stream, nodes > 400 ? 11 : 25);
    for (const char* shape : {"wide", "twice"})
        for (int nodes : {2, 10, 30, 100, 300, 500, 1000}) row("kernel", shape, nodes, stream, 15);
    for (const char* kind : {"memset", "h2d", "d2h", "d2d", "mixed", "host", "record", "empty"})
        for (int nodes : {1, 2, 5, 10, 30, 100, 300, 500}) row(kind, "chain", nodes, stream, 15);
    for (int nodes : {1, 2, 4, 8, 16, 32}) row("if", "chain", nodes, stream, 15);
    for (const char* kind : {"memset", "h2d", "host"})
        for (int nodes : {2, 10, 30, 100}) row(kind, "wide", nodes, stream, 15);
    for (int nodes : {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}) capture_row(nodes, stream, 25);
    for (int wait_us : {0, 20, 50, 100, 200, 500, 1000, 2000, 5000, 20000}) wait_row(wait_us, stream, 15);
    fprintf(out, "\n]\n");
    fclose(out);
    return 0;
}
