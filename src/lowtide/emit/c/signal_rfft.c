/* The spectrum of real samples of 16 bits, which is made where it lies: a transform of half as many complex numbers by
   fours, and by a two if it takes one; every step halves or quarters, so that nothing has to grow. */
typedef struct {
    int32_t in, out, samples;
    int32_t half; /* of the samples with the zeros behind them: 2^bits */
    uint32_t bits;
    const int16_t *turns;           /* exp(-2 pi i k / half), cosine and sine, 15 bits right of the point */
    const int16_t *last_turns;      /* exp(-pi i (k / half + 1/2)) for k from 1 on */
} signal_rfft_t;

typedef struct {
    int32_t re, im;
} complex_t;

/* What 16 bits keep of a number. */
static int32_t narrow(int32_t value)
{
    return (int32_t)(int16_t)(uint16_t)((uint32_t)value & 0xFFFFU);
}

static int32_t rounded(int32_t product)
{
    return narrow((product + 16384) >> 15);
}

static complex_t complex_sum(complex_t a, complex_t b)
{
    complex_t sum;
    sum.re = narrow(a.re + b.re);
    sum.im = narrow(a.im + b.im);
    return sum;
}

static complex_t complex_difference(complex_t a, complex_t b)
{
    complex_t difference;
    difference.re = narrow(a.re - b.re);
    difference.im = narrow(a.im - b.im);
    return difference;
}

static complex_t turned(complex_t a, const int16_t *turn)
{
    complex_t product;
    product.re = rounded((a.re * turn[0]) - (a.im * turn[1]));
    product.im = rounded((a.re * turn[1]) + (a.im * turn[0]));
    return product;
}

/* A number times part / 2^15. */
static complex_t complex_at(const int8_t *from, int32_t part)
{
    complex_t number;
    number.re = rounded(half_at(from) * part);
    number.im = rounded(half_at(&from[2]) * part);
    return number;
}

static void set_complex(int8_t *to, int32_t re, int32_t im)
{
    set_half(to, re);
    set_half(&to[2], im);
}

/* Which sample begins the next pair when pairs are sorted by the digits of their number, last first: one more, with the
   carry to the right. */
static uint32_t next_sample(uint32_t sample, uint32_t bits)
{
    uint32_t digit = ((bits % 2U) != 0U) ? 1U : 2U;
    uint32_t unit = (uint32_t)1 << (bits + 1U - digit);
    uint32_t all = (unit << digit) - unit;
    uint32_t next = sample;
    while ((unit > 1U) && ((next & all) == all)) {
        next -= all;
        unit >>= 2;
        all = 3U * unit;
    }
    return next + unit;
}

static void by_two(const signal_rfft_t *k)
{
    int8_t *out = bytes_at(k->out);
    int32_t i;
    for (i = 0; i < k->half; i += 2) {
        int8_t *first = &out[4 * i];
        complex_t a = complex_at(first, 16383);
        complex_t b = turned(complex_at(&first[4], 16383), k->turns);
        complex_t difference = complex_difference(a, b);
        complex_t sum = complex_sum(a, b);
        set_complex(&first[4], difference.re, difference.im);
        set_complex(first, sum.re, sum.im);
    }
}

/* One number of each of four transforms of `many`, with the turns of number `i`. */
static void four(const signal_rfft_t *k, int8_t *first, int32_t many, int32_t turn)
{
    complex_t a = complex_at(first, 8191);
    complex_t b = turned(complex_at(&first[4 * many], 8191), &k->turns[2 * turn]);
    complex_t c = turned(complex_at(&first[8 * many], 8191), &k->turns[4 * turn]);
    complex_t d = turned(complex_at(&first[12 * many], 8191), &k->turns[6 * turn]);
    complex_t ac = complex_sum(a, c);
    complex_t bd = complex_sum(b, d);
    complex_t a_c = complex_difference(a, c);
    complex_t b_d = complex_difference(b, d);
    set_complex(first, ac.re + bd.re, ac.im + bd.im);
    set_complex(&first[4 * many], a_c.re + b_d.im, a_c.im - b_d.re);
    set_complex(&first[8 * many], ac.re - bd.re, ac.im - bd.im);
    set_complex(&first[12 * many], a_c.re - b_d.im, a_c.im + b_d.re);
}

static void by_fours(const signal_rfft_t *k, int32_t many)
{
    int8_t *out = bytes_at(k->out);
    int32_t step = k->half / (4 * many);
    int32_t begin;
    int32_t i;
    for (begin = 0; begin < k->half; begin += 4 * many) {
        for (i = 0; i < many; i++) {
            four(k, &out[4 * (begin + i)], many, i * step);
        }
    }
}

/* The spectrum of real samples from that of complex ones, a number and its mirror at a time. */
static void mirrored(int8_t *near, int8_t *far, const int16_t *turn)
{
    complex_t a = complex_at(near, 16383);
    complex_t b;
    complex_t sum;
    complex_t difference;
    b.re = rounded(half_at(far) * 16383);
    b.im = rounded(narrow(-half_at(&far[2])) * 16383);
    sum = complex_sum(a, b);
    difference = turned(complex_difference(a, b), turn);
    set_complex(near, (sum.re + difference.re) >> 1, (sum.im + difference.im) >> 1);
    set_complex(far, (sum.re - difference.re) >> 1, (difference.im - sum.im) >> 1);
}

static void signal_rfft(const signal_rfft_t *k, const box_t *box)
{
    const int8_t *in = bytes_at(k->in);
    int8_t *out = bytes_at(k->out);
    int32_t many;
    int32_t i;
    uint32_t pair = 0U;
    complex_t first;
    (void)box; /* all of it */
    for (i = 0; i < k->half; i++) {
        int32_t sample = (int32_t)pair;
        int32_t re = (sample < k->samples) ? half_at(&in[2 * sample]) : 0;
        int32_t im = ((sample + 1) < k->samples) ? half_at(&in[(2 * sample) + 2]) : 0;
        set_complex(&out[4 * i], re, im);
        pair = next_sample(pair, k->bits);
    }
    if ((k->bits % 2U) != 0U) {
        by_two(k); /* what fours leave over comes first */
    }
    many = ((k->bits % 2U) != 0U) ? 2 : 1;
    for (; many < k->half; many *= 4) {
        by_fours(k, many);
    }
    first = complex_at(out, 16383);
    set_complex(out, first.re + first.im, 0);
    set_complex(&out[4 * k->half], first.re - first.im, 0);
    for (i = 1; i <= (k->half / 2); i++) {
        mirrored(&out[4 * i], &out[4 * (k->half - i)], &k->last_turns[2 * (i - 1)]);
    }
}
