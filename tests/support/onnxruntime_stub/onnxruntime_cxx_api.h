// What a session header of lowtide uses of onnxruntime's C++ API, with its signatures: it prints each setting, and runs
// nothing. STUB_BLOCK is the block of the processor that it plays.
#pragma once

#include <cstddef>
#include <cstdio>
#include <exception>
#include <vector>

struct OrtEnv {};
struct OrtMemoryInfo {};
struct OrtArenaCfg {};
struct OrtStatus {};
enum GraphOptimizationLevel { ORT_DISABLE_ALL = 0, ORT_ENABLE_ALL = 99 };
enum OrtAllocatorType { OrtArenaAllocator = 1 };
enum OrtMemType { OrtMemTypeDefault = 0 };
enum OrtLoggingLevel { ORT_LOGGING_LEVEL_WARNING = 2 };

struct OrtApi {
    OrtStatus* CreateArenaCfgV2(
        const char* const* keys, const std::size_t* values, std::size_t count, OrtArenaCfg** out) const {
        for (std::size_t k = 0; k < count; ++k) std::printf("%s=%zu\n", keys[k], values[k]);
        *out = new OrtArenaCfg;
        return nullptr;
    }
    OrtStatus* CreateAndRegisterAllocator(OrtEnv*, const OrtMemoryInfo*, const OrtArenaCfg*) const {
        static bool registered = false;
        std::printf("registered=%d\n", registered ? 0 : 1);
        OrtStatus* const status = registered ? new OrtStatus : nullptr;
        registered = true;
        return status;
    }
    void ReleaseArenaCfg(OrtArenaCfg* config) const { delete config; }
    void ReleaseStatus(OrtStatus* status) const { delete status; }
};

namespace Ort {

inline const OrtApi& GetApi() {
    static const OrtApi api;
    return api;
}
struct Exception : std::exception {};
inline void ThrowOnError(OrtStatus* status) {
    if (status) throw Exception();
}
struct Env {
    Env(OrtLoggingLevel, const char*) {}
    operator OrtEnv*() { return &own; }
    OrtEnv own;
};
struct MemoryInfo {
    static MemoryInfo CreateCpu(OrtAllocatorType, OrtMemType) { return {}; }
    operator const OrtMemoryInfo*() const { return &own; }
    OrtMemoryInfo own;
};
struct RunOptions {
    explicit RunOptions(std::nullptr_t) {}
};
struct SessionOptions {
    SessionOptions& SetGraphOptimizationLevel(GraphOptimizationLevel level) { return say("level", level); }
    SessionOptions& SetLogSeverityLevel(int) { return *this; }
    SessionOptions& SetIntraOpNumThreads(int threads) { return say("intra", threads); }
    SessionOptions& SetInterOpNumThreads(int threads) { return say("inter", threads); }
    SessionOptions& DisableMemPattern() { return say("pattern", 0); }
    SessionOptions& DisableCpuMemArena() { return *this; }
    SessionOptions& AddConfigEntry(const char* key, const char* value) {
        std::printf("%s=%s\n", key, value);
        return *this;
    }
    SessionOptions& say(const char* name, int value) {
        std::printf("%s=%d\n", name, value);
        return *this;
    }
};
struct TypeAndShape {
    std::size_t GetElementCount() const { return 32; }
};
struct Value {
    template <class T>
    const T* GetTensorData() const {
        static const std::vector<T> data = [] {
            std::vector<T> made(32);
            made[STUB_BLOCK] = 1;
            return made;
        }();
        return data.data();
    }
    TypeAndShape GetTensorTypeAndShapeInfo() const { return {}; }
};
struct Session {
    Session(const Env&, const char* path, const SessionOptions&) { std::printf("open %s\n", path); }
    Session(const Env&, const void* bytes, std::size_t size, const SessionOptions&) {
        std::printf("probe of %zu bytes, the first %d\n", size, *static_cast<const unsigned char*>(bytes));
        if (!STUB_BLOCK) throw Exception();
    }
    std::vector<Value> Run(
        const RunOptions&, const char* const*, const Value*, std::size_t, const char* const*, std::size_t count) {
        return std::vector<Value>(count);
    }
};

}  // namespace Ort
