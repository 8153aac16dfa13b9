/* The harness without a model: what of a program's flash is not the model's. */
#include "board.h"

#include <stdio.h>
#include <string.h>

static int8_t output[16];

int main(void)
{
    double tick = board_tick();
    board_begin();
    (void)memcpy(output, vector_inputs, 1);
    printf("stack %lu instructions %.0f wrong %d\n", (unsigned long)board_stack_bytes(), (double)board_end() * tick,
           memcmp(output, vector_outputs, 1));
    return 0;
}
