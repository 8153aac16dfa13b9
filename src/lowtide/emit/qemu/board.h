/* What a program on a board measures. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void board_begin(void);           /* marks the stack and starts the counter */
uint64_t board_end(void);         /* ticks since then */
uint32_t board_stack_bytes(void); /* of the stack that were used since then */
double board_tick(void);          /* instructions of a tick */

/* Test vectors: inputs one after the other, and what is to come out. */
extern const int8_t vector_inputs[];
extern const int8_t vector_outputs[];
extern const int vector_count;

#ifdef __cplusplus
}
#endif

#endif
