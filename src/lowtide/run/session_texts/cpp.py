"""The session of a plan as a C++17 header."""

from __future__ import annotations

import re
from pathlib import Path

from lowtide.run.blocks import PORTABLE
from lowtide.run.session_texts import SessionSettings, probe_lines

_TEXT = """\
// Opens {name} as lowtide planned it: C++17, onnxruntime 1.24 or later.
//
//     #include "{file}"
//     Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "program");
//     Ort::Session session = {space}::lowtide_open(env, "{model}");
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

namespace {space} {{

constexpr std::size_t arena_bytes = {arena};
{block}
// Gives this process one block for its sessions, split as needed; it grows by what is missing.
inline void register_arena(Ort::Env& env, int threads) {{
    constexpr std::array<const char*, 5> keys{{
        "max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_power_of_two_extend_bytes",
        "max_dead_bytes_per_chunk"}};
    const std::size_t block = arena_bytes + 65536 * static_cast<std::size_t>(threads - 1);
    const std::array<std::size_t, 5> values{{0, 0, block, {extend}, 256}};
    OrtArenaCfg* config = nullptr;
    Ort::ThrowOnError(Ort::GetApi().CreateArenaCfgV2(keys.data(), values.data(), keys.size(), &config));
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    OrtStatus* const status = Ort::GetApi().CreateAndRegisterAllocator(env, memory, config);
    Ort::GetApi().ReleaseArenaCfg(config);
    if (status) Ort::GetApi().ReleaseStatus(status);  // another model registered one before: they share it
}}

inline Ort::SessionOptions options(int threads) {{
    Ort::SessionOptions chosen;
    chosen.SetGraphOptimizationLevel({level});
    chosen.DisableMemPattern();  // from the second run on it would take a block of its own
    chosen.SetIntraOpNumThreads(threads);
    chosen.SetInterOpNumThreads(1);
    chosen.AddConfigEntry("session.use_env_allocators", "1");
    chosen.AddConfigEntry("session.use_device_allocator_for_initializers", "1");
{more}    return chosen;
}}

// A session on the CPU; by default with all threads, as onnxruntime takes.
inline Ort::Session lowtide_open(Ort::Env& env, const std::filesystem::path& path, int threads = 0) {{
    if (threads <= 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
{check}    register_arena(env, threads);
    return Ort::Session(env, path.c_str(), options(threads));
}}

}}  // namespace {space}
"""

_BLOCK = """\
constexpr int channel_block = {block};  // of the file's convolutions; with another one they compute wrong numbers

// Asks onnxruntime for the block on this processor, by where it puts the one of a small tensor; 0: it has none.
inline int block_here(Ort::Env& env) {{
    const std::string encoded =
{probe};
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::vector<unsigned char> probe;
    unsigned bits = 0, count = 0;
    for (const char c : encoded) {{
        if (c == '=') break;
        bits = bits << 6 | static_cast<unsigned>(digits.find(c));
        count += 6;
        if (count >= 8) probe.push_back(static_cast<unsigned char>(bits >> (count -= 8)));
    }}
    Ort::SessionOptions chosen;
    chosen.SetGraphOptimizationLevel(ORT_DISABLE_ALL);
    chosen.SetLogSeverityLevel(4);
    chosen.SetIntraOpNumThreads(1);
    chosen.DisableCpuMemArena();
    try {{
        Ort::Session session(env, probe.data(), probe.size(), chosen);
        const char* const output = "y";
        const auto made = session.Run(Ort::RunOptions{{nullptr}}, nullptr, nullptr, 0, &output, 1);
        const float* values = made[0].GetTensorData<float>();
        const std::size_t size = made[0].GetTensorTypeAndShapeInfo().GetElementCount();
        return static_cast<int>(std::max_element(values, values + size) - values);
    }} catch (const Ort::Exception&) {{
        return 0;
    }}
}}

inline void check_processor(Ort::Env& env) {{
    const int here = block_here(env);
    if (here != channel_block) {{
        throw std::runtime_error(
            "{name} is for processors whose convolutions have blocks of {block} channels, and this one has " +
            (here ? std::to_string(here) : "none") +
            ": plan here, or for any processor: lowtide plan MODEL {portable} -o OUT");
    }}
}}
"""

_NOT_PREPACKED = """\
    chosen.AddConfigEntry("session.disable_prepacking", "1");  // kernels would keep copies of the weights
"""


def text(settings: SessionSettings, file: str) -> str:
    """The header's text; `file` is its name, of which the namespace is made."""
    space = re.sub(r"^(?=\d)", "_", re.sub(r"\W", "_", Path(file).stem, flags=re.ASCII))
    block = check = ""
    name = Path(settings.model).name
    if settings.block:
        probe = "\n".join(f'        "{line}"' for line in probe_lines())
        block = _BLOCK.format(block=settings.block, probe=probe, name=_quoted(name), portable=PORTABLE)
        check = "    check_processor(env);\n"
    return _TEXT.format(
        name=name,
        file=file,
        model=settings.model,
        space=space,
        arena=settings.arena_bytes,
        extend=settings.growth_bytes,
        level="ORT_ENABLE_ALL" if settings.chooses_layout else "ORT_DISABLE_ALL",
        block=block,
        check=check,
        more="" if settings.prepacked else _NOT_PREPACKED,
    )


def _quoted(name: str) -> str:
    """As inside a C++ string."""
    return name.replace("\\", "\\\\").replace('"', '\\"')
