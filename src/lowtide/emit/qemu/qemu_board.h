/* What a program on a board measures and prints. No C library is needed. */
#ifndef QEMU_BOARD_H
#define QEMU_BOARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint64_t board_now(void);                        /* ticks of the counter */
double board_tick(void);                         /* instructions of a tick */
void board_ask(int what, const void *with);      /* the host, by semihosting */
void board_write(const char *text);              /* to the host */
void board_number(uint64_t number);              /* to the host, in decimals */
__attribute__((noreturn)) void board_exit(int status);

/* Marks the stack and starts to count; stops; compares a result; prints what the last run took. */
void board_begin(void);
void board_end(void);
void board_compare(const void *result, const void *expected, uint32_t bytes);
void board_report(uint32_t arena_bytes);

/* Test vectors: inputs one after the other, and what is to come out. */
extern const int8_t vector_inputs[];
extern const int8_t vector_outputs[];
extern const uint32_t vector_count;

#ifdef __cplusplus
}
#endif

#endif
