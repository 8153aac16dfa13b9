// The firmware's side of plan.py: the planned model in an arena of exactly the size that the header declares.
#include <cstdint>
#include <cstdio>

#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"
// Made by plan.py:
#include "net_arena.h"
#include "net_model.h"
#include "net_ops.h"

alignas(NET_ARENA_ALIGN) static uint8_t arena[NET_ARENA_SIZE];

int main() {
  static tflite::MicroMutableOpResolver<kOps> resolver;
  NET_OPS(resolver)
  static tflite::MicroInterpreter interpreter(tflite::GetModel(net_model), resolver, arena, sizeof arena);
  if (interpreter.AllocateTensors() != kTfLiteOk) {
    std::puts("the arena is too small, or an operator is missing");
    return 1;
  }
  TfLiteTensor* input = interpreter.input(0);
  for (size_t i = 0; i < input->bytes; ++i) input->data.uint8[i] = static_cast<uint8_t>(i);  // your sensor
  if (interpreter.Invoke() != kTfLiteOk) return 1;
  const TfLiteTensor* output = interpreter.output(0);
  std::printf("declared %u, used %u, output of %u bytes\n", static_cast<unsigned>(sizeof arena),
              static_cast<unsigned>(interpreter.arena_used_bytes()), static_cast<unsigned>(output->bytes));
  return 0;
}
