/* The mean of a window, rounded, halves away from zero. */
static int8_t average_of(const pool_t *k, int32_t sum, int32_t count)
{
    int32_t value = ((sum > 0) ? (sum + (count / 2)) : (sum - (count / 2))) / count;
    return clamped(value, k->low, k->high);
}

