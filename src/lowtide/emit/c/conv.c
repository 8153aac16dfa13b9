/* Bytes of the input beside each other, and of the weights that they are multiplied with. */
typedef struct {
    const int8_t *from;
    int32_t weight, length;
} run_t;

/* What a pixel of the result reads of the input; how many runs that is. */
static int32_t runs_of(const conv_t *k, int32_t y, int32_t x, run_t *runs)
{
    int32_t count = 0;
    int32_t row;
    int32_t column;
    int32_t beside = ((k->in.px == 0) && (k->in.x == k->in_c) && (k->dilation_w == 1)) ? 1 : 0;
    int32_t left = (x * k->stride_w) - k->left;
    for (row = 0; row < k->kernel_h; row++) {
        int32_t in_y = (y * k->stride_h) - k->top + (row * k->dilation_h);
        if ((in_y < 0) || (in_y >= k->in_h)) {
            continue;
        }
        if (beside != 0) {
            int32_t first = most(0, -left);
            int32_t end = least(k->kernel_w, k->in_w - left);
            if (first < end) {
                runs[count].from = at(&k->in, in_y, left + first, 0);
                runs[count].weight = ((row * k->kernel_w) + first) * k->in_c;
                runs[count].length = (end - first) * k->in_c;
                count++;
            }
            continue;
        }
        for (column = 0; column < k->kernel_w; column++) {
            int32_t in_x = left + (column * k->dilation_w);
            if ((in_x >= 0) && (in_x < k->in_w)) {
                runs[count].from = at(&k->in, in_y, in_x, 0);
                runs[count].weight = ((row * k->kernel_w) + column) * k->in_c;
                runs[count].length = k->in_c;
                count++;
            }
        }
    }
    return count;
}

static void conv(const conv_t *k, const box_t *box)
{
    run_t runs[MOST_TAPS];
    int32_t filter = k->kernel_h * k->kernel_w * k->in_c;
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t r;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            int32_t count = runs_of(k, y, x, runs);
            int32_t group = together(&k->out, box->c1 - box->c0);
            int8_t *to = at(&k->out, y, x, box->c0);
            for (c = box->c0; c < box->c1; c++) {
                const int8_t *weights = &k->weights[c * filter];
                int32_t sum = (k->bias != NULL) ? k->bias[c] : 0;
                for (r = 0; r < count; r++) {
                    sum += dot(runs[r].from, &weights[runs[r].weight], runs[r].length, k->in_zero);
                }
                sum = scaled(sum, k->multiplier[c], k->shift[c]) + k->out_zero;
                if (group == 1) {
                    *at(&k->out, y, x, c) = clamped(sum, k->low, k->high);
                } else {
                    to[(c - box->c0) * k->out.c] = clamped(sum, k->low, k->high);
                }
            }
        }
    }
}
