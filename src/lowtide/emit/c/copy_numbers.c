/* Numbers that are `in_step` bytes apart to places that are `step` bytes apart. */
static void copy_numbers(int8_t *to, int32_t step, const int8_t *from, int32_t in_step, int32_t count, int32_t bytes)
{
    int32_t i;
    int32_t j;
    if ((step != bytes) || (in_step != bytes)) {
        for (i = 0; i < count; i++) {
            for (j = 0; j < bytes; j++) {
                to[(i * step) + j] = from[(i * in_step) + j];
            }
        }
    } else if (to != from) {
        (void)memcpy(to, from, (size_t)(count * bytes));
    } else {
        /* it is there */
    }
}
