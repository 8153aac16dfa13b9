/* Sums of 32 bits in the arena, while parts of an operand come one after the other. */
static int32_t sum_at(int32_t base, int32_t which)
{
    uint32_t value = 0U;
    int32_t i;
    for (i = 3; i >= 0; i--) {
        value = (value << 8) | (uint32_t)(uint8_t)arena[base + (4 * which) + i];
    }
    return (int32_t)value;
}

static void set_sum(int32_t base, int32_t which, int32_t sum)
{
    uint32_t value = (uint32_t)sum;
    int32_t i;
    for (i = 0; i < 4; i++) {
        arena[base + (4 * which) + i] = (int8_t)(uint8_t)(value & 0xFFU);
        value >>= 8;
    }
}

