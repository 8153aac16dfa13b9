/* Softmax over channels, in the fixed point of TFLite: 5 bits left of the point for differences, 12 for the sum. */
typedef struct {
    view_t in, out;
    int32_t depth, multiplier, shift, least_difference;
} softmax_t;

/* The upper half of twice a product, rounded to the nearest, halves upwards. */
static int32_t high_product(int32_t a, int32_t b)
{
    if ((a == INT32_MIN) && (b == INT32_MIN)) {
        return INT32_MAX;
    }
    return (int32_t)((((int64_t)a * (int64_t)b) + ((int64_t)1 << 30)) >> 31);
}

/* Times 2^by, at most and at least what 32 bits hold. */
static int32_t shifted(int32_t value, int32_t by)
{
    int64_t wide = (int64_t)value * ((int64_t)1 << by);
    if (wide > (int64_t)INT32_MAX) {
        return INT32_MAX;
    }
    return (wide < (int64_t)INT32_MIN) ? INT32_MIN : (int32_t)wide;
}

/* exp(x) for x from -1/4 to 0, 31 bits right of the point: a series around -1/8. */
static int32_t exp_near_zero(int32_t value)
{
    int32_t x = value + ((int32_t)1 << 28);
    int32_t x2 = high_product(x, x);
    int32_t x3 = high_product(x2, x);
    int32_t x4 = halved(high_product(x2, x2), 2);
    int32_t rest = halved(high_product(x4 + x3, 715827883) + x2, 1);
    return 1895147668 + high_product(1895147668, x + rest);
}

/* exp(x) for x below 0 with 26 bits right of the point; the result has 31. */
static int32_t exp_below_zero(int32_t value)
{
    static const int32_t factors[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    int32_t quarter = (int32_t)1 << 24;
    int32_t part = (value & (quarter - 1)) - quarter;
    int32_t result = exp_near_zero(shifted(part, 5));
    int32_t rest = part - value;
    int32_t i;
    for (i = 0; i < 7; i++) {
        if ((rest & ((int32_t)1 << (24 + i))) != 0) {
            result = high_product(result, factors[i]);
        }
    }
    return (value == 0) ? INT32_MAX : result;
}

/* 1 / (1 + x) for x from 0 to 1, 31 bits right of the point: three steps of Newton's. */
static int32_t reciprocal(int32_t value)
{
    int32_t half = (int32_t)(((int64_t)value + (int64_t)INT32_MAX + 1) / 2);
    int32_t x = 1515870810 + high_product(half, -1010580540);
    int32_t i;
    for (i = 0; i < 3; i++) {
        int32_t error = ((int32_t)1 << 29) - high_product(half, x);
        x += shifted(high_product(x, error), 2);
    }
    return shifted(x, 1);
}

static int32_t exp_of(const softmax_t *k, int32_t difference)
{
#if MODEL_SINGLE_ROUNDING
    return exp_below_zero(scaled(difference, k->multiplier, k->shift));
#else
    return exp_below_zero(high_product(difference * (int32_t)((uint32_t)1 << k->shift), k->multiplier));
#endif
}

/* What the elements of a row are compared with, and what their exponentials are multiplied by: 1 / 2^zeros of their sum. */
typedef struct {
    int32_t largest, scale, zeros;
} softmax_sum_t;

static softmax_sum_t softmax_sum(const softmax_t *k, const int8_t *in)
{
    softmax_sum_t row;
    int32_t sum = 0;
    int32_t c;
    row.largest = INT8_MIN;
    for (c = 0; c < k->depth; c++) {
        row.largest = most(row.largest, in[c]);
    }
    for (c = 0; c < k->depth; c++) {
        if (((int32_t)in[c] - row.largest) >= k->least_difference) {
            sum += halved(exp_of(k, (int32_t)in[c] - row.largest), 12);
        }
    }
    row.zeros = leading_zeros((uint32_t)sum);
    row.scale = reciprocal((int32_t)(((uint32_t)sum << row.zeros) - ((uint32_t)1 << 31)));
    return row;
}

/* The share that an element has of its row's sum, in so many bits. */
static int32_t softmax_share(const softmax_t *k, const softmax_sum_t *row, int32_t element, int32_t bits)
{
    int32_t difference = element - row->largest;
    if (difference < k->least_difference) {
        return 0;
    }
    return halved(high_product(row->scale, exp_of(k, difference)), 12 - row->zeros + 31 - bits);
}
