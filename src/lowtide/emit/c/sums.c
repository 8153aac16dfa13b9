/* Sums of 32 bits in the arena, while parts of an operand come one after the other. */
static int32_t sum_at(int32_t base, int32_t which)
{
    return (int32_t)word_at(bytes_at(base + (4 * which)));
}

static void set_sum(int32_t base, int32_t which, int32_t sum)
{
    set_word(bytes_at(base + (4 * which)), (uint32_t)sum);
}

