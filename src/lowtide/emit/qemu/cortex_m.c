/* Starts a program on a Cortex-M of qemu's (mps2-an386, mps2-an500, mps3-an547), and counts its instructions with the
   system timer: with -icount shift=0 an instruction takes a nanosecond. */
#include "qemu_board.h"

extern uint32_t stack_top, __bss_start__, __bss_end__, data_begin, data_end, data_load;
extern int main(void);
void reset(void);
void tick(void);

#define TIMER ((volatile uint32_t *)0xE000E010U) /* control, reload, value */
enum { RELOAD = 0xFFFFFF };

static volatile uint32_t reloads;

void tick(void)
{
    reloads++;
}

uint64_t board_now(void)
{
    uint32_t before;
    uint32_t value;
    do {
        before = reloads;
        value = TIMER[2];
    } while (before != reloads);
    return ((uint64_t)before * ((uint64_t)RELOAD + 1U)) + (uint64_t)(RELOAD - value);
}

double board_tick(void)
{
    uint32_t count = 4000000U;
    uint64_t first = board_now();
    __asm__ volatile("1: subs %0, %0, #1\n bne 1b\n" : "+r"(count) : : "cc");
    return 8000000.0 / (double)(board_now() - first);
}

void board_ask(int what, const void *with)
{
    register int code __asm__("r0") = what;
    register const void *block __asm__("r1") = with;
    __asm__ volatile("bkpt 0xAB" : "+r"(code) : "r"(block) : "memory");
}

void reset(void)
{
    const uint32_t *from = &data_load;
    volatile uint32_t *to; /* or the compiler calls functions of a library */
    *(volatile uint32_t *)0xE000ED88U |= 0xFU << 20; /* the floating-point unit, and MVE */
    __asm__ volatile("dsb\n isb");
    for (to = &data_begin; to < &data_end; to++) {
        *to = *from++;
    }
    for (to = &__bss_start__; to < &__bss_end__; to++) {
        *to = 0U;
    }
    TIMER[1] = RELOAD;
    TIMER[2] = 0U;
    TIMER[0] = 7U; /* on, with its interrupt, by the processor's clock */
    while (TIMER[2] == 0U) {
    }
    reloads = 0U;
    board_exit(main());
}

static void stop(void)
{
    board_exit(9);
}

__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {&stack_top, {reset, stop, stop, stop, stop, stop, stop, 0, 0, 0, stop, stop, 0, stop, tick}};
