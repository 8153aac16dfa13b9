/* Sums of two tensors of one shape. */
typedef struct {
    view_t first, second, out;
    int32_t first_zero, first_multiplier, first_shift;
    int32_t second_zero, second_multiplier, second_shift;
    int32_t out_zero, out_multiplier, out_shift;
    int32_t low, high;
} add_t;

static int8_t add_one(const add_t *k, int32_t first, int32_t second)
{
    int32_t one = scaled((first - k->first_zero) * ADD_FACTOR, k->first_multiplier, k->first_shift);
    int32_t other = scaled((second - k->second_zero) * ADD_FACTOR, k->second_multiplier, k->second_shift);
    return clamped(scaled(one + other, k->out_multiplier, k->out_shift) + k->out_zero, k->low, k->high);
}

static void add(const add_t *k, const box_t *box)
{
    int32_t count = box->c1 - box->c0;
    int32_t many = least(together(&k->out, count), least(together(&k->first, count), together(&k->second, count)));
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t j;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c += many) {
                const int8_t *first = at(&k->first, y, x, c);
                const int8_t *second = at(&k->second, y, x, c);
                int8_t *out = at(&k->out, y, x, c);
                for (j = 0; j < many; j++) {
                    out[j * k->out.c] = add_one(k, first[j * k->first.c], second[j * k->second.c]);
                }
            }
        }
    }
}
