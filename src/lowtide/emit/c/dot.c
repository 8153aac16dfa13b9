/* The sum of products of numbers beside each other, those of `a` less their zero. */
static int32_t dot(const int8_t *a, const int8_t *b, int32_t length, int32_t zero)
{
    int32_t sum = 0;
    int32_t i;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4 /* clang does by itself what gcc leaves to -O3 */
#endif
    for (i = 0; i < length; i++) {
        sum += ((int32_t)a[i] - zero) * (int32_t)b[i];
    }
    return sum;
}
