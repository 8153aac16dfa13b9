/* Softmax over channels of numbers with a point. */
typedef struct {
    view_t in, out;
    int32_t depth;
    float beta;
} real_softmax_t;

static void real_softmax_row(const real_softmax_t *k, const int8_t *in, int8_t *out)
{
    float largest = -FLT_MAX;
    float sum = 0.0f;
    int32_t c;
    for (c = 0; c < k->depth; c++) {
        float value = real_at(&in[c * k->in.c]);
        largest = (largest < value) ? value : largest;
    }
    for (c = 0; c < k->depth; c++) {
        float value = expf((real_at(&in[c * k->in.c]) - largest) * k->beta);
        set_real(&out[c * k->out.c], value);
        sum += value;
    }
    for (c = 0; c < k->depth; c++) {
        set_real(&out[c * k->out.c], real_at(&out[c * k->out.c]) / sum);
    }
}

static void real_softmax(const real_softmax_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            real_softmax_row(k, at(&k->in, y, x, 0), at(&k->out, y, x, 0));
        }
    }
}
