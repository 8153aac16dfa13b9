/* Runs an emitted model on test vectors, and prints what the last run took. */
#include "board.h"
#include "model.h"

#include <stdio.h>
#include <string.h>

#ifndef MODEL_STATE_BYTES /* what is kept from one run to the next */
#define MODEL_STATE_BYTES 0
#endif

static int8_t output[MODEL_OUTPUT_BYTES];

int main(void)
{
    double tick = board_tick();
    uint64_t ticks = 0;
    int wrong = 0;
    int i;
    for (i = 0; i < vector_count; i++) {
        const int8_t *input = &vector_inputs[i * MODEL_INPUT_BYTES];
        board_begin();
        (void)model_run(input, output);
        ticks = board_end();
        wrong += (memcmp(output, &vector_outputs[i * MODEL_OUTPUT_BYTES], MODEL_OUTPUT_BYTES) != 0) ? 1 : 0;
    }
    printf("arena %ld stack %lu instructions %.0f wrong %d\n",
           (long)(MODEL_ARENA_BYTES + MODEL_COUNTER_BYTES + MODEL_STATE_BYTES), (unsigned long)board_stack_bytes(),
           (double)ticks * tick, wrong);
    return 0;
}
