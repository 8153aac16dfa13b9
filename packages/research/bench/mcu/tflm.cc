// Runs a model with TFLM on test vectors, and prints what the last run took. RESOLVE adds its operators, of which there
// are OPERATORS.
#include <cstring>

#include "qemu_board.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/micro/micro_resource_variable.h"
#include "tensorflow/lite/schema/schema_generated.h"

extern "C" {
extern const unsigned char model_file[];
extern void initialise_monitor_handles(void);
void* __dso_handle;  // of destructors of static objects, which never run
void _init(void) {}
void _fini(void) {}
}

namespace {
alignas(16) uint8_t arena[ARENA];
}

int main() {
  initialise_monitor_handles();
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
    board_write("no tensors\n");
    return 1;
  }
  TfLiteTensor* in = interpreter.input(0);
  for (uint32_t i = 0; i < vector_count; i++) {
    board_begin();
    memcpy(in->data.raw, &vector_inputs[i * in->bytes], in->bytes);
    interpreter.Invoke();
    board_end();
    TfLiteTensor* out = interpreter.output(0);
    board_compare(out->data.raw, &vector_outputs[i * out->bytes], out->bytes);
  }
  board_report(interpreter.arena_used_bytes());
  return 0;
}
