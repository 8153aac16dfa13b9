/* Elements of 8, 16 or 32 bits. */
static int32_t wide_at(const int8_t *from, int32_t bytes)
{
    if (bytes == 2) {
        return half_at(from);
    }
    return (bytes == 1) ? (int32_t)*from : (int32_t)word_at(from);
}

static void set_wide(int8_t *to, int32_t bytes, int32_t value)
{
    if (bytes == 2) {
        set_half(to, value);
    } else if (bytes == 1) {
        *to = (int8_t)(uint8_t)((uint32_t)value & 0xFFU);
    } else {
        set_word(to, (uint32_t)value);
    }
}

