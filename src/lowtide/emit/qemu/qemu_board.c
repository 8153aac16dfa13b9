/* What all boards have in common: a mark on the stack, a count, and lines for the host. */
#include "qemu_board.h"

extern uint32_t end; /* of static data */

#define MARK 0xA5A5A5A5U
enum { MARKED_WORDS = 32768, WRITE0 = 4, EXIT = 0x20, APPLICATION_EXIT = 0x20026 };

static uint64_t began, taken;
static uint32_t *lowest, *highest, *caller; /* words with marks; the stack of who calls `board_begin` ends there */
static uint32_t runs, wrong, first_run, first_byte, first_result, first_expected;

__attribute__((noinline)) void board_begin(void)
{
    register uint32_t *pointer __asm__("sp");
    uint32_t *word;
    caller = __builtin_dwarf_cfa();
    highest = pointer;
    lowest = ((highest - &end) > (int)MARKED_WORDS) ? (highest - MARKED_WORDS) : &end;
    for (word = lowest; word < highest; word++) {
        *(volatile uint32_t *)word = MARK;
    }
    began = board_now();
}

void board_end(void)
{
    taken = board_now() - began;
}

void board_compare(const void *result, const void *expected, uint32_t bytes)
{
    const uint8_t *got = result;
    const uint8_t *want = expected;
    uint32_t i = 0;
    while ((i < bytes) && (got[i] == want[i])) {
        i++;
    }
    if (i < bytes) {
        if (wrong == 0U) {
            first_run = runs;
            first_byte = i;
            first_result = got[i];
            first_expected = want[i];
        }
        wrong++;
    }
    runs++;
}

static uint32_t stack_bytes(void)
{
    const uint32_t *word = lowest;
    while ((word < highest) && (*word == MARK)) {
        word++;
    }
    return (uint32_t)(caller - word) * 4U;
}

/* What the host is asked for is numbered as semihosting does. */
void board_write(const char *text)
{
    board_ask(WRITE0, text);
}

void board_exit(int status)
{
    const int block[2] = {APPLICATION_EXIT, status};
    for (;;) {
        board_ask(EXIT, block);
    }
}

void board_number(uint64_t number)
{
    char digits[24];
    char *digit = &digits[23];
    *digit = '\0';
    do {
        *--digit = (char)('0' + (int)(number % 10U));
        number /= 10U;
    } while (number != 0U);
    board_write(digit);
}

static void named(const char *name, uint64_t number)
{
    board_write(name);
    board_write(" ");
    board_number(number);
    board_write(" ");
}

void board_report(uint32_t arena_bytes)
{
    uint64_t ticks = taken;
    uint32_t stack = stack_bytes();
    named("arena", arena_bytes);
    named("stack", stack);
    named("instructions", (uint64_t)(((double)ticks * board_tick()) + 0.5));
    named("wrong", wrong);
    if (wrong != 0U) {
        named("run", first_run);
        named("byte", first_byte);
        named("result", first_result);
        named("expected", first_expected);
    }
    board_write("\n");
}
