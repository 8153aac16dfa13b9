/* Runs a model on test vectors, and prints what the last run took. */
#include "qemu_board.h"
#include "model.h"

static int8_t input[MODEL_INPUT_BYTES] __attribute__((aligned(16)));
static int8_t output[MODEL_OUTPUT_BYTES] __attribute__((aligned(16)));

#ifdef MODEL_STATE_BYTES
enum { KEPT_BYTES = MODEL_STATE_BYTES };
#else
enum { KEPT_BYTES = 0 };
#endif

int main(void)
{
    uint32_t run;
    uint32_t i;
    for (run = 0; run < vector_count; run++) {
        for (i = 0; i < (uint32_t)MODEL_INPUT_BYTES; i++) {
            input[i] = vector_inputs[(run * (uint32_t)MODEL_INPUT_BYTES) + i];
        }
        board_begin();
        (void)model_run(@CALL@);
        board_end();
        board_compare(output, &vector_outputs[run * (uint32_t)MODEL_OUTPUT_BYTES], MODEL_OUTPUT_BYTES);
    }
    board_report(MODEL_ARENA_BYTES + MODEL_COUNTER_BYTES + KEPT_BYTES);
    return 0;
}
