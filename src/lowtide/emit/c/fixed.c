/* Divided by a power of two, rounded, halves away from zero. */
INLINED int32_t halved(int32_t value, int32_t times)
{
    int32_t mask = (int32_t)(((int64_t)1 << times) - 1);
    int32_t rest = value & mask;
    int32_t limit = (mask >> 1) + ((value < 0) ? 1 : 0);
    return (value >> times) + ((rest > limit) ? 1 : 0);
}
