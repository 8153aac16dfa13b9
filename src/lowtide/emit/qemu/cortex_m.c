/* Starts a program on qemu's mps2-an386 (Cortex-M4) or mps3-an547 (Cortex-M55), and counts its instructions with the
   system timer: with -icount shift=0 an instruction takes a nanosecond. */
#include "board.h"

#include <stdlib.h>

extern uint32_t stack_top, __bss_start__, __bss_end__, data_begin, data_end, data_load;
extern void initialise_monitor_handles(void);
extern int main(void);
void reset(void);
void tick(void);
void _init(void);
void _fini(void);

#define TIMER ((volatile uint32_t *)0xE000E010U) /* control, reload, value */
#define MARK 0xA5A5A5A5U
enum { RELOAD = 0xFFFFFF, MARKED_WORDS = 32768 };

static volatile uint32_t reloads;
static uint64_t began;
static uint32_t *lowest, *highest;

void tick(void)
{
    reloads++;
}

uint64_t board_now(void);
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

__attribute__((noinline)) void board_begin(void)
{
    uint32_t *word;
    highest = (uint32_t *)__builtin_frame_address(0) - 16;
    lowest = highest - MARKED_WORDS;
    for (word = lowest; word < highest; word++) {
        *word = MARK;
    }
    began = board_now();
}

uint64_t board_end(void)
{
    return board_now() - began;
}

uint32_t board_stack_bytes(void)
{
    const uint32_t *word = lowest;
    while ((word < highest) && (*word == MARK)) {
        word++;
    }
    return (uint32_t)(highest - word) * 4U;
}

double board_tick(void)
{
    uint32_t count = 4000000U;
    uint64_t first = board_now();
    __asm__ volatile("1: subs %0, %0, #1\n bne 1b\n" : "+r"(count) : : "cc");
    return 8000000.0 / (double)(board_now() - first);
}

void reset(void)
{
    const uint32_t *from = &data_load;
    uint32_t *to;
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
    initialise_monitor_handles();
    exit(main());
}
void *__dso_handle; /* of destructors of static objects, which never run */
void _init(void) {}
void _fini(void) {}

static void stop(void)
{
    exit(9);
}

__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {&stack_top, {reset, stop, stop, stop, stop, stop, stop, 0, 0, 0, stop, stop, 0, stop, tick}};
