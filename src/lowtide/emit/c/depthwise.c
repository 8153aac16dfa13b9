/* Depthwise convolutions. Weights: row, column, channel. */
typedef struct {
    view_t in, out;
    int32_t in_h, in_w, out_c, times; /* times: channels of the result for each of the input */
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left;
    int32_t in_zero, out_zero, low, high;
    const int8_t *weights;
    const int32_t *bias; /* or none */
    const int32_t *multiplier;
    const int8_t *shift;
} depthwise_t;

/* One channel of one element of the input, and its weights. */
typedef struct {
    const int8_t *from;
    const int8_t *weights;
} tap_t;

/* Taps of a pixel inside the input, from a channel of the input on. */
static int32_t taps_of(const depthwise_t *k, int32_t y, int32_t x, int32_t channel, tap_t *taps)
{
    int32_t count = 0;
    int32_t row;
    int32_t column;
    for (row = 0; row < k->kernel_h; row++) {
        int32_t in_y = (y * k->stride_h) - k->top + (row * k->dilation_h);
        if ((in_y < 0) || (in_y >= k->in_h)) {
            continue;
        }
        for (column = 0; column < k->kernel_w; column++) {
            int32_t in_x = (x * k->stride_w) - k->left + (column * k->dilation_w);
            if ((in_x >= 0) && (in_x < k->in_w)) {
                taps[count].from = at(&k->in, in_y, in_x, channel);
                taps[count].weights = &k->weights[((row * k->kernel_w) + column) * k->out_c];
                count++;
            }
        }
    }
    return count;
}

static int8_t depthwise_result(const depthwise_t *k, int32_t sum, int32_t c)
{
    int32_t value = (k->bias != NULL) ? (sum + k->bias[c]) : sum;
    return clamped(scaled(value, k->multiplier[c], k->shift[c]) + k->out_zero, k->low, k->high);
}

/* Channels one by one: they lie apart, or several are made of one. */
static void depthwise_single(const depthwise_t *k, const box_t *box, int32_t y, int32_t x)
{
    tap_t taps[MOST_TAPS];
    int32_t c;
    int32_t t;
    for (c = box->c0; c < box->c1; c++) {
        int32_t count = taps_of(k, y, x, c / k->times, taps);
        int32_t sum = 0;
        for (t = 0; t < count; t++) {
            sum += ((int32_t)taps[t].from[0] - k->in_zero) * (int32_t)taps[t].weights[c];
        }
        *at(&k->out, y, x, c) = depthwise_result(k, sum, c);
    }
}

/* Channels in blocks. */
static void depthwise_blocks(const depthwise_t *k, const box_t *box, int32_t y, int32_t x)
{
    tap_t taps[MOST_TAPS];
    int32_t count = taps_of(k, y, x, 0, taps);
    int8_t *to = at(&k->out, y, x, 0);
    int32_t c;
    int32_t j;
    int32_t t;
    for (c = box->c0; c < box->c1; c += BLOCK) {
        int32_t sums[BLOCK] = {0};
        int32_t block = least(BLOCK, box->c1 - c);
        for (t = 0; t < count; t++) {
            const int8_t *from = &taps[t].from[c];
            const int8_t *weights = &taps[t].weights[c];
            if (block == BLOCK) {
                for (j = 0; j < BLOCK; j++) {
                    sums[j] += ((int32_t)from[j] - k->in_zero) * (int32_t)weights[j];
                }
            } else {
                for (j = 0; j < block; j++) {
                    sums[j] += ((int32_t)from[j] - k->in_zero) * (int32_t)weights[j];
                }
            }
        }
        for (j = 0; j < block; j++) {
            to[c + j] = depthwise_result(k, sums[j], c + j);
        }
    }
}

static void depthwise(const depthwise_t *k, const box_t *box)
{
    int32_t beside = ((k->times == 1) && (k->in.pc == 0) && (k->in.c == 1) && (k->out.pc == 0) && (k->out.c == 1));
    int32_t y;
    int32_t x;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            if (beside != 0) {
                depthwise_blocks(k, box, y, x);
            } else {
                depthwise_single(k, box, y, x);
            }
        }
    }
}
