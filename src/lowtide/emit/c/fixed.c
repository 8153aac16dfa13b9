/* The upper half of twice a product, rounded to the nearest, halves upwards. */
static int32_t high_product(int32_t a, int32_t b)
{
    if ((a == INT32_MIN) && (b == INT32_MIN)) {
        return INT32_MAX;
    }
    return (int32_t)((((int64_t)a * (int64_t)b) + ((int64_t)1 << 30)) >> 31);
}

/* Divided by a power of two, rounded, halves away from zero. */
static int32_t halved(int32_t value, int32_t times)
{
    int32_t mask = (int32_t)(((int64_t)1 << times) - 1);
    int32_t rest = value & mask;
    int32_t limit = (mask >> 1) + ((value < 0) ? 1 : 0);
    return (value >> times) + ((rest > limit) ? 1 : 0);
}
