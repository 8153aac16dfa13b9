// Opens @name@ as lowtide planned it: C++17, onnxruntime 1.24 or later.
//
//     #include "@file@"
//     Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "program");
//     Ort::Session session = @space@::lowtide_open(env, "@model@");
//
// The C API has no settings for the order of nodes and for the reuse of buffers, which the Python session sets: there
// onnxruntime goes its own way, and may take more memory than lowtide measured.

#pragma once

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace @space@ {

constexpr std::size_t arena_bytes = @arena@;
@block@
// Gives this process one block for its sessions, split as needed; it grows by what is missing.
inline void register_arena(Ort::Env& env, int threads) {
    constexpr std::array<const char*, 5> keys{
        "max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_power_of_two_extend_bytes",
        "max_dead_bytes_per_chunk"};
    const int most = threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    const std::size_t block = arena_bytes + @thread@ * static_cast<std::size_t>(most - 1);
    const std::array<std::size_t, 5> values{0, 0, block, @extend@, 256};
    OrtArenaCfg* config = nullptr;
    Ort::ThrowOnError(Ort::GetApi().CreateArenaCfgV2(keys.data(), values.data(), keys.size(), &config));
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    OrtStatus* const status = Ort::GetApi().CreateAndRegisterAllocator(env, memory, config);
    Ort::GetApi().ReleaseArenaCfg(config);
    if (status) Ort::GetApi().ReleaseStatus(status);  // another model registered one before: they share it
}

inline Ort::SessionOptions options(int threads) {
    Ort::SessionOptions chosen;
    chosen.SetGraphOptimizationLevel(@level@);
    chosen.DisableMemPattern();  // from the second run on it would take a block of its own
    chosen.SetIntraOpNumThreads(threads);
    chosen.SetInterOpNumThreads(1);
    chosen.AddConfigEntry("session.use_env_allocators", "1");
    chosen.AddConfigEntry("session.use_device_allocator_for_initializers", "1");
@more@    return chosen;
}

// A session on the CPU; by default with a thread for each core that stays on it, as onnxruntime does by default.
inline Ort::Session lowtide_open(Ort::Env& env, const std::filesystem::path& path, int threads = 0) {
@check@    register_arena(env, threads);
    Ort::Session session(env, path.c_str(), options(threads));
#ifdef __GLIBC__
    malloc_trim(0);  // what only opening needed goes back to the system
#endif
    return session;
}

}  // namespace @space@
