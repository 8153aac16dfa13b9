// A model planned by lowtide, from the file to a running program: TFLM's MicroInterpreter in an arena as large as the
// header says, with the offsets that the written model holds.
//
//     lowtide research plan net.tflite -o net.planned.tflite --header net_arena.h --set pointer=32
//     lowtide research plan net.tflite -o net.planned.tflite --header net_arena.h --board esp32s3 --place tail=psram
//
// The first line gives one arena, the second one for the head and one for the tail; this program takes either header.
// In firmware it is compiled with the application, against TFLM as it is there:
//
//     g++ -std=c++17 -m32 -DMODEL='"net.planned.tflite"' -DARENA='"net_arena.h"' main.cc libtensorflow-microlite.a
//
// From a clone, with TFLM's sources as bench/tflm32/README.md lists them, for this machine:
//
//     python bench/tflm32/build.py SOURCES BUILD --bits 32 --main examples/tflm/main.cc -DMODEL='"net.planned.tflite"' \
//         -DARENA='"net_arena.h"' -I. && BUILD/main-32-reference
#include <cstdint>
#include <cstdio>

#include "tensorflow/lite/micro/micro_allocator.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include ARENA

// The model lies in flash as it is in its file.
asm(".section .rodata\n.balign 16\n.globl net_model\nnet_model:\n.incbin \"" MODEL "\"\n.previous\n");
extern "C" const unsigned char net_model[];

namespace {

#ifdef NET_HEAD_ARENA_SIZE
// Each array goes into its memory with __attribute__((section(".psram"))) and the like.
alignas(NET_HEAD_ARENA_ALIGN) uint8_t head[NET_HEAD_ARENA_SIZE];
alignas(NET_TAIL_ARENA_ALIGN) uint8_t tail[NET_TAIL_ARENA_SIZE];

tflite::MicroAllocator* Allocator() { return tflite::MicroAllocator::Create(tail, sizeof(tail), head, sizeof(head)); }
constexpr unsigned kDeclared = sizeof(head) + sizeof(tail);
#else
alignas(NET_ARENA_ALIGN) uint8_t arena[NET_ARENA_SIZE];

tflite::MicroAllocator* Allocator() { return tflite::MicroAllocator::Create(arena, sizeof(arena)); }
constexpr unsigned kDeclared = sizeof(arena);
#endif

// The operators of the model, and no others: each takes flash.
tflite::MicroMutableOpResolver<8> Operators() {
  tflite::MicroMutableOpResolver<8> operators;
  operators.AddConv2D();
  operators.AddDepthwiseConv2D();
  operators.AddAdd();
  operators.AddAveragePool2D();
  operators.AddMaxPool2D();
  operators.AddFullyConnected();
  operators.AddReshape();
  operators.AddSoftmax();
  return operators;
}

}  // namespace

int main() {
  const tflite::Model* model = tflite::GetModel(net_model);
  static tflite::MicroMutableOpResolver<8> operators = Operators();
  tflite::MicroInterpreter interpreter(model, operators, Allocator());
  if (interpreter.AllocateTensors() != kTfLiteOk) {
    std::puts("the arena is too small, or an operator is missing");
    return 1;
  }
  TfLiteTensor* input = interpreter.input(0);
  for (size_t i = 0; i < input->bytes; ++i) input->data.uint8[i] = static_cast<uint8_t>(37 * i + 11);
  if (interpreter.Invoke() != kTfLiteOk) return 1;
  const TfLiteTensor* output = interpreter.output(0);
  std::printf("declared %u, used %u\n", kDeclared, static_cast<unsigned>(interpreter.arena_used_bytes()));
  std::printf("output of %u bytes:", static_cast<unsigned>(output->bytes));
  for (size_t i = 0; i < output->bytes && i < 64; ++i) std::printf(" %d", output->data.int8[i]);
  std::puts("");
  return 0;
}
