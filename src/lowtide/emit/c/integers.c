/* Whole numbers of 32 bits, pair by pair, or each with one number. */
enum { INTEGERS_ADD, INTEGERS_MUL, INTEGERS_DIV, INTEGERS_MINIMUM, INTEGERS_MAXIMUM };

typedef struct {
    view_t first, second, out;
    int32_t what;
    int32_t one;   /* 1: the second operand is a number, 2: the first, 0: both are tensors */
    int32_t value; /* that number */
} integers_t;

static uint32_t integers_of(int32_t what, int32_t first, int32_t second)
{
    switch (what) {
    case INTEGERS_ADD:
        return (uint32_t)first + (uint32_t)second;
    case INTEGERS_MUL:
        return (uint32_t)first * (uint32_t)second;
    case INTEGERS_DIV:
        return (uint32_t)((int64_t)first / (int64_t)second);
    case INTEGERS_MINIMUM:
        return (uint32_t)least(first, second);
    default:
        return (uint32_t)most(first, second);
    }
}

static void integers(const integers_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c++) {
                int32_t first = (k->one == 2) ? k->value : (int32_t)word_at(at(&k->first, y, x, c));
                int32_t second = (k->one == 1) ? k->value : (int32_t)word_at(at(&k->second, y, x, c));
                set_word(at(&k->out, y, x, c), integers_of(k->what, first, second));
            }
        }
    }
}
