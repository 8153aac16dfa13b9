// Runs a model with TFLM on test vectors, and prints what the last run took. RESOLVE adds its operators, of which there
// are OPERATORS.
#include <cstdio>
#include <cstring>

#include "board.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/micro/micro_resource_variable.h"
#include "tensorflow/lite/schema/schema_generated.h"

extern "C" const unsigned char model_file[];

namespace {
alignas(16) uint8_t arena[ARENA];
}

int main() {
  double tick = board_tick();
  static tflite::MicroMutableOpResolver<OPERATORS> resolver;
  RESOLVE
  const tflite::Model* model = tflite::GetModel(model_file);
#if VARIABLES
  tflite::MicroAllocator* allocator = tflite::MicroAllocator::Create(arena, sizeof arena);
  static tflite::MicroInterpreter interpreter(model, resolver, allocator,
                                              tflite::MicroResourceVariables::Create(allocator, VARIABLES));
#else
  static tflite::MicroInterpreter interpreter(model, resolver, arena, sizeof arena);
#endif
  if (interpreter.AllocateTensors() != kTfLiteOk) {
    printf("no tensors\n");
    return 1;
  }
  uint64_t ticks = 0;
  int wrong = 0;
  TfLiteTensor* in = interpreter.input(0);
  for (int i = 0; i < vector_count; i++) {
    board_begin();
    memcpy(in->data.raw, &vector_inputs[i * in->bytes], in->bytes);
    interpreter.Invoke();
    ticks = board_end();
    TfLiteTensor* out = interpreter.output(0);
    wrong += memcmp(out->data.raw, &vector_outputs[i * out->bytes], out->bytes) != 0;
  }
  printf("arena %ld stack %lu instructions %.0f wrong %d\n", (long)interpreter.arena_used_bytes(),
         (unsigned long)board_stack_bytes(), (double)ticks * tick, wrong);
  return 0;
}
