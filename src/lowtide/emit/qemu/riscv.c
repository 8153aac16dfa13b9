/* Starts a program on qemu's RISC-V board (virt), and counts its instructions: with -icount shift=0 a cycle is one. The
   functions of memory are those that a compiler calls by itself: there may be no C library. */
#include "qemu_board.h"

#include <stddef.h>

extern uint32_t __bss_start__, __bss_end__, data_begin, data_end, data_load;
extern int main(void);
void start(void);
void stop(void);
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int memcmp(const void *one, const void *other, size_t size);

__asm__(".section .vectors, \"ax\"\n"
        ".global reset\n"
        "reset:\n"
        "    la t0, stop\n"
        "    .insn i 0x73, 1, x0, t0, 0x305\n" /* csrw mtvec, t0: older assemblers want an extension's name for it */
        "    la sp, stack_top\n"
        "    j start\n"
        "    .text\n");

#define READ(value, number) __asm__ volatile(".insn i 0x73, 2, %0, x0, " number : "=r"(value)) /* csrr */

uint64_t board_now(void)
{
    uint32_t high;
    uint32_t low;
    uint32_t next;
    do {
        READ(high, "-1152"); /* mcycleh */
        READ(low, "-1280");  /* mcycle */
        READ(next, "-1152");
    } while (high != next);
    return ((uint64_t)high << 32) | low;
}

double board_tick(void)
{
    return 1.0;
}

void board_ask(int what, const void *with)
{
    register int code __asm__("a0") = what;
    register const void *block __asm__("a1") = with;
    __asm__ volatile(".option push\n"
                     ".option norvc\n"
                     ".balign 16\n" /* the three are in one page */
                     "slli x0, x0, 0x1f\n"
                     "ebreak\n"
                     "srai x0, x0, 7\n"
                     ".option pop\n"
                     : "+r"(code)
                     : "r"(block)
                     : "memory");
}

void start(void)
{
    const uint32_t *from = &data_load;
    volatile uint32_t *to; /* or the compiler calls functions of a library */
    for (to = &data_begin; to < &data_end; to++) {
        *to = *from++;
    }
    for (to = &__bss_start__; to < &__bss_end__; to++) {
        *to = 0U;
    }
    board_exit(main());
}

__attribute__((aligned(4))) void stop(void)
{
    board_exit(9);
}

#define PLAIN __attribute__((optimize("no-tree-loop-distribute-patterns"))) /* or they call themselves */

PLAIN void *memcpy(void *to, const void *from, size_t size)
{
    char *out = to;
    const char *in = from;
    if (((((uintptr_t)to) | ((uintptr_t)from)) & 3U) == 0U) {
        for (; size >= 4U; size -= 4U, out += 4, in += 4) {
            *(uint32_t *)(void *)out = *(const uint32_t *)(const void *)in;
        }
    }
    while (size-- > 0U) {
        *out++ = *in++;
    }
    return to;
}

PLAIN void *memmove(void *to, const void *from, size_t size)
{
    char *out = to;
    const char *in = from;
    if (out <= in) {
        return memcpy(to, from, size);
    }
    while (size-- > 0U) {
        out[size] = in[size];
    }
    return to;
}

PLAIN void *memset(void *to, int value, size_t size)
{
    char *out = to;
    while (size-- > 0U) {
        *out++ = (char)value;
    }
    return to;
}

PLAIN int memcmp(const void *one, const void *other, size_t size)
{
    const unsigned char *a = one;
    const unsigned char *b = other;
    for (; size > 0U; size--, a++, b++) {
        if (*a != *b) {
            return (int)*a - (int)*b;
        }
    }
    return 0;
}
