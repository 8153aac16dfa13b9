/* Elements of 8, 16 or 32 bits, the lowest byte first. */
static int32_t wide_at(const int8_t *from, int32_t bytes)
{
    uint32_t value = 0U;
    int32_t i;
    for (i = 0; i < bytes; i++) {
        value |= (uint32_t)(uint8_t)from[i] << (8 * i);
    }
    if ((bytes < 4) && ((value >> ((8 * bytes) - 1)) != 0U)) {
        value |= 0xFFFFFFFFU << (8 * bytes);
    }
    return (int32_t)value;
}

static void set_wide(int8_t *to, int32_t bytes, int32_t value)
{
    int32_t i;
    for (i = 0; i < bytes; i++) {
        to[i] = (int8_t)(uint8_t)(((uint32_t)value >> (8 * i)) & 0xFFU);
    }
}

