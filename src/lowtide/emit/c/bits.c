/* Bits of a number without its leading zeros; of 0, as TFLite Micro's signal library has it, 32. */
static uint32_t bits_of(uint32_t value)
{
    uint32_t bits = 0U;
    uint32_t step;
    if (value == 0U) {
        return 32U;
    }
    for (step = 16U; step > 0U; step >>= 1) {
        if ((value >> step) != 0U) {
            value >>= step;
            bits += step;
        }
    }
    return bits + 1U;
}

