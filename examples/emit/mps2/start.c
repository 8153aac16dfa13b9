/* Starts main.c of an emitted project on qemu's mps2-an386, a Cortex-M4, with files over semihosting:

   lowtide emit model.tflite -o firmware --stream-input
   arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -O2 -std=c99 -DMODEL_GUARD=64 -Ifirmware firmware/model.c \
       firmware/model_weights.c firmware/main.c examples/emit/mps2/start.c -T examples/emit/mps2/board.ld \
       --specs=rdimon.specs -nostartfiles -o model.elf
   qemu-system-arm -M mps2-an386 -nographic -semihosting -kernel model.elf

   It compares what the model makes of in.bin with want.bin, which the project's host program makes. */
#include <stdint.h>
#include <stdlib.h>

extern uint32_t stack_top, data_begin, data_end, data_load, __bss_start__, __bss_end__;
extern void initialise_monitor_handles(void);
extern int main(int count, char **words);
void reset(void);
void _init(void);
void _fini(void);

void reset(void)
{
    static char program[] = "model_host", check[] = "--check", inputs[] = "in.bin", wanted[] = "want.bin";
    static char *words[] = {program, check, inputs, wanted};
    const uint32_t *from = &data_load;
    *(volatile uint32_t *)0xE000ED88U |= 0xFU << 20; /* the floating-point unit, and MVE */
    for (uint32_t *to = &data_begin; to < &data_end; to++) {
        *to = *from++;
    }
    for (uint32_t *to = &__bss_start__; to < &__bss_end__; to++) {
        *to = 0U;
    }
    initialise_monitor_handles();
    exit(main(4, words));
}
void _init(void) {}
void _fini(void) {}

__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*reset)(void);
} vectors = {&stack_top, reset};
