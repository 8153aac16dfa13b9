// Runs a .tflite file in TFLM of this build: the smallest arena, what is taken from it, and a digest of the outputs.
//
//   arena smallest FILE               smallest arena with which AllocateTensors succeeds, a multiple of 16, plain
//   arena smallest-recording FILE     the same with the recording allocator
//   arena at FILE SEED ROUNDS SIZE    as outputs, in an arena of this size; "refused" if AllocateTensors fails
//   arena apart FILE                  smallest arena for the head, then for the tail, if each has its own
//   arena outputs-apart FILE SEED ROUNDS HEAD TAIL    as outputs, in two arenas of these sizes
//   arena parts FILE                  head and tail, once it has started with room enough
//   arena trace FILE                  every allocation: kind, bytes, alignment
//   arena outputs FILE SEED ROUNDS    FNV-1a of all outputs, for inputs drawn from SEED
//   arena sizes                       sizeof of the structs that lie in the tail
//
// The arena begins at a multiple of 16. Each try runs in a process of its own: some kernels write where they got no
// memory.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "python/tflite_micro/python_ops_resolver.h"
#include "tensorflow/lite/micro/arena_allocator/non_persistent_arena_buffer_allocator.h"
#include "tensorflow/lite/micro/arena_allocator/persistent_arena_buffer_allocator.h"
#include "tensorflow/lite/micro/arena_allocator/recording_single_arena_buffer_allocator.h"
#include "tensorflow/lite/micro/arena_allocator/single_arena_buffer_allocator.h"
#include "tensorflow/lite/micro/memory_planner/greedy_memory_planner.h"
#include "tensorflow/lite/micro/micro_allocation_info.h"
#include "tensorflow/lite/micro/micro_allocator.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_resource_variable.h"
#include "tensorflow/lite/micro/recording_micro_allocator.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace {

constexpr size_t kMost = 64u << 20;
constexpr size_t kUnit = 16;
constexpr int kVariables = 0;

uint8_t* g_arena;
uint8_t* g_tail;

class Traced : public tflite::SingleArenaBufferAllocator {
 public:
  Traced(uint8_t* at, size_t size) : SingleArenaBufferAllocator(at, size) {}
  uint8_t* AllocatePersistentBuffer(size_t size, size_t alignment) override {
    std::printf("persistent %zu %zu\n", size, alignment);
    return SingleArenaBufferAllocator::AllocatePersistentBuffer(size, alignment);
  }
  uint8_t* AllocateTemp(size_t size, size_t alignment) override {
    std::printf("temporary %zu %zu\n", size, alignment);
    return SingleArenaBufferAllocator::AllocateTemp(size, alignment);
  }
  TfLiteStatus ResetTempAllocations() override {
    std::printf("reset\n");
    return SingleArenaBufferAllocator::ResetTempAllocations();
  }
  TfLiteStatus ResizeBuffer(uint8_t* at, size_t size, size_t alignment) override {
    std::printf("head %zu %zu\n", size, alignment);
    return SingleArenaBufferAllocator::ResizeBuffer(at, size, alignment);
  }
  TfLiteStatus ReserveNonPersistentOverlayMemory(size_t size, size_t alignment) override {
    std::printf("plan %zu %zu\n", size, alignment);
    return SingleArenaBufferAllocator::ReserveNonPersistentOverlayMemory(size, alignment);
  }
  void operator delete(void*) {}
};

tflite::PythonOpsResolver& Resolver() {
  static tflite::PythonOpsResolver* resolver = new tflite::PythonOpsResolver;
  return *resolver;
}

bool Starts(const tflite::Model* model, size_t size, bool recording) {
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    if (recording) {
      auto* allocator = tflite::RecordingMicroAllocator::Create(g_arena, size);
      if (allocator == nullptr) _exit(1);
      tflite::MicroInterpreter interpreter(model, Resolver(), allocator);
      _exit(interpreter.AllocateTensors() == kTfLiteOk ? 0 : 1);
    }
    tflite::MicroInterpreter interpreter(model, Resolver(), g_arena, size);
    _exit(interpreter.AllocateTensors() == kTfLiteOk ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int Smallest(const tflite::Model* model, bool recording) {
  if (!Starts(model, kMost, recording)) return 2;
  size_t fails = 0;
  size_t works = kMost / kUnit;
  while (works - fails > 1) {
    const size_t middle = fails + (works - fails) / 2;
    (Starts(model, middle * kUnit, recording) ? works : fails) = middle;
  }
  std::printf("%zu\n", works * kUnit);
  return 0;
}

bool StartsApart(const tflite::Model* model, size_t head, size_t tail) {
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    auto* allocator = tflite::MicroAllocator::Create(g_tail, tail, g_arena, head);
    tflite::MicroInterpreter interpreter(model, Resolver(), allocator);
    if (interpreter.AllocateTensors() != kTfLiteOk) _exit(1);
    interpreter.Invoke();  // signal kernels start without memory that they were refused, and end here
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int Apart(const tflite::Model* model) {
  if (!StartsApart(model, kMost, kMost)) return 2;
  for (const bool tail : {false, true}) {
    size_t fails = 0;
    size_t works = kMost / kUnit;
    while (works - fails > 1) {
      const size_t size = (fails + (works - fails) / 2) * kUnit;
      const bool starts = tail ? StartsApart(model, kMost, size) : StartsApart(model, size, kMost);
      (starts ? works : fails) = size / kUnit;
    }
    std::printf("%zu%s", works * kUnit, tail ? "\n" : " ");
  }
  return 0;
}

int Parts(const tflite::Model* model) {
  auto* allocator = tflite::RecordingMicroAllocator::Create(g_arena, kMost);
  tflite::MicroInterpreter interpreter(model, Resolver(), allocator);
  if (interpreter.AllocateTensors() != kTfLiteOk) return 2;
  const auto* memory = allocator->GetSimpleMemoryAllocator();
  std::printf("%zu %zu\n", memory->GetNonPersistentUsedBytes(), memory->GetPersistentUsedBytes());
  return 0;
}

int Trace(const tflite::Model* model) {
  Traced traced(g_arena, kMost);
  tflite::GreedyMemoryPlanner planner;
  auto* allocator = tflite::MicroAllocator::Create(&traced, &planner);
  tflite::MicroInterpreter interpreter(model, Resolver(), allocator);
  return interpreter.AllocateTensors() == kTfLiteOk ? 0 : 2;
}

int Outputs(const tflite::Model* model, uint32_t seed, int rounds, size_t head, size_t tail) {
  auto* allocator = tail == 0 ? tflite::MicroAllocator::Create(g_arena, head)
                              : tflite::MicroAllocator::Create(g_tail, tail, g_arena, head);
  tflite::MicroInterpreter interpreter(model, Resolver(), allocator);
  if (interpreter.AllocateTensors() != kTfLiteOk) return 2;
  uint64_t digest = 14695981039346656037u;
  uint32_t state = seed * 2654435761u + 1;
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < interpreter.inputs_size(); ++i) {
      TfLiteTensor* t = interpreter.input(i);
      for (size_t k = 0; k < t->bytes; ++k) {
        state = state * 1664525u + 1013904223u;
        if (t->type == kTfLiteFloat32) {
          if (k % 4 == 0) t->data.f[k / 4] = static_cast<float>(static_cast<int>(state >> 16) % 2048 - 1024) / 256.0f;
        } else {
          t->data.uint8[k] = static_cast<uint8_t>(state >> 24);
        }
      }
    }
    if (interpreter.Invoke() != kTfLiteOk) return 3;
    for (size_t i = 0; i < interpreter.outputs_size(); ++i) {
      const TfLiteTensor* t = interpreter.output(i);
      for (size_t k = 0; k < t->bytes; ++k) digest = (digest ^ t->data.uint8[k]) * 1099511628211u;
    }
  }
  std::printf("%016llx\n", static_cast<unsigned long long>(digest));
  return 0;
}

int At(const tflite::Model* model, uint32_t seed, int rounds, size_t size) {
  if (!Starts(model, size, false)) {
    std::printf("refused\n");
    return 0;
  }
  return Outputs(model, seed, rounds, size, 0);
}

#define SIZE(type) std::printf("%s %zu %zu\n", #type, sizeof(type), alignof(type))

int Sizes() {
  SIZE(void*);
  SIZE(tflite::SingleArenaBufferAllocator);
  SIZE(tflite::PersistentArenaBufferAllocator);
  SIZE(tflite::NonPersistentArenaBufferAllocator);
  SIZE(tflite::RecordingSingleArenaBufferAllocator);
  SIZE(tflite::GreedyMemoryPlanner);
  SIZE(tflite::MicroAllocator);
  SIZE(tflite::RecordingMicroAllocator);
  SIZE(tflite::SubgraphAllocations);
  SIZE(tflite::NodeAndRegistration);
  SIZE(tflite::ScratchBufferHandle);
  SIZE(tflite::internal::ScratchBufferRequest);
  SIZE(tflite::AllocationInfo);
  SIZE(TfLiteEvalTensor);
  SIZE(TfLiteTensor);
  SIZE(TfLiteAffineQuantization);
  SIZE(TfLiteIntArray);
  SIZE(int64_t);
  SIZE(double);
  std::printf("GreedyMemoryPlanner::per_buffer_size %zu 1\n", tflite::GreedyMemoryPlanner::per_buffer_size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "sizes") == 0) return Sizes();
  if (argc < 3) return 64;
  FILE* file = std::fopen(argv[2], "rb");
  if (file == nullptr) return 66;
  std::fseek(file, 0, SEEK_END);
  const long size = std::ftell(file);
  std::rewind(file);
  void* place = nullptr;
  if (posix_memalign(&place, 64, size + 64) != 0) return 71;
  if (std::fread(place, 1, size, file) != static_cast<size_t>(size)) return 66;
  std::fclose(file);
  void* arena = nullptr;
  if (posix_memalign(&arena, 4096, kMost) != 0) return 71;
  g_arena = static_cast<uint8_t*>(arena);
  void* second = nullptr;
  if (posix_memalign(&second, 4096, kMost) != 0) return 71;
  g_tail = static_cast<uint8_t*>(second);
  const tflite::Model* model = tflite::GetModel(place);
  if (std::strcmp(argv[1], "smallest") == 0) return Smallest(model, false);
  if (std::strcmp(argv[1], "smallest-recording") == 0) return Smallest(model, true);
  if (std::strcmp(argv[1], "apart") == 0) return Apart(model);
  if (std::strcmp(argv[1], "parts") == 0) return Parts(model);
  if (std::strcmp(argv[1], "trace") == 0) return Trace(model);
  if (std::strcmp(argv[1], "at") == 0 && argc == 6) {
    return At(model, static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10)), std::atoi(argv[4]),
              std::strtoul(argv[5], nullptr, 10));
  }
  const bool two = std::strcmp(argv[1], "outputs-apart") == 0 && argc == 7;
  if (two || (std::strcmp(argv[1], "outputs") == 0 && argc == 5)) {
    const size_t head = two ? std::strtoul(argv[5], nullptr, 10) : kMost;
    const size_t tail = two ? std::strtoul(argv[6], nullptr, 10) : 0;
    return Outputs(model, static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10)), std::atoi(argv[4]), head, tail);
  }
  return 64;
}
