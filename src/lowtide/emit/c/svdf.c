/* Filters over time: each keeps its last results, and adds them up with weights. */
typedef struct {
    view_t in, out;
    int32_t in_c, memory, rank;
    int32_t in_zero, state_zero, out_zero;
    int32_t feature_multiplier, feature_shift, time_multiplier, time_shift;
    int32_t state; /* where its results begin */
    const int8_t *features;
    const int8_t *times;
    const int32_t *bias; /* or none */
} svdf_t;

/* What one filter adds: the newest result takes the place of the oldest one. */
static int32_t svdf_filter(const svdf_t *k, const int8_t *in, int32_t filter)
{
    int8_t *kept = &kept_results[k->state + (filter * k->memory)];
    const int8_t *features = &k->features[filter * k->in_c];
    const int8_t *times = &k->times[filter * k->memory];
    int32_t sum = 0;
    int32_t i;
    for (i = 0; i < k->in_c; i++) {
        sum += ((int32_t)in[i * k->in.c] - k->in_zero) * (int32_t)features[i];
    }
    for (i = 1; i < k->memory; i++) {
        kept[i - 1] = kept[i];
    }
    sum = most(INT8_MIN, least(INT8_MAX, scaled(sum, k->feature_multiplier, k->feature_shift)));
    kept[k->memory - 1] = (int8_t)sum;
    sum = 0;
    for (i = 0; i < k->memory; i++) {
        uint32_t with_zero = (uint32_t)((int32_t)kept[i] + k->state_zero); /* of which TFLM keeps 8 bits */
        sum += ((int32_t)(int8_t)(uint8_t)(with_zero & 0xFFU) - k->state_zero) * (int32_t)times[i];
    }
    return sum;
}

static void svdf(const svdf_t *k, const box_t *box)
{
    int32_t c;
    int32_t r;
    for (c = box->c0; c < box->c1; c++) {
        int32_t sum = (k->bias != NULL) ? k->bias[c] : 0;
        for (r = 0; r < k->rank; r++) {
            sum += svdf_filter(k, at(&k->in, 0, 0, 0), (c * k->rank) + r);
        }
        sum = scaled(sum, k->time_multiplier, k->time_shift) + k->out_zero;
        *at(&k->out, 0, 0, c) = clamped(sum, INT8_MIN, INT8_MAX);
    }
}
