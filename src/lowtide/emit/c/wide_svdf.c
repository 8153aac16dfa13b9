/* Filters over time that keep their last results in 16 bits, and add them up with weights. */
typedef struct {
    view_t in, out;
    int32_t in_c, memory, rank;
    int32_t in_zero, state_zero, out_zero;
    int32_t feature_multiplier, feature_shift, time_multiplier, time_shift;
    int32_t state; /* where its results begin */
    const int8_t *features;
    const int16_t *times;
    const int32_t *bias; /* or none */
} wide_svdf_t;

/* What one filter adds: the newest result takes the place of the oldest one. */
static int32_t wide_svdf_filter(const wide_svdf_t *k, const int8_t *in, int32_t filter)
{
    int8_t *kept = &kept_results[k->state + (2 * filter * k->memory)];
    const int16_t *times = &k->times[filter * k->memory];
    int32_t last = k->memory - 1;
    int32_t newest = dot(in, &k->features[filter * k->in_c], k->in_c, k->in_zero);
    int32_t sum = 0;
    int32_t i;
    newest = most(INT16_MIN, least(INT16_MAX, scaled(newest, k->feature_multiplier, k->feature_shift)));
    for (i = 0; i < last; i++) {
        int32_t value = half_at(&kept[2 * (i + 1)]);
        set_half(&kept[2 * i], value);
        sum += value * (int32_t)times[i];
    }
    set_half(&kept[2 * last], newest);
    return sum + (newest * (int32_t)times[last]);
}

static void wide_svdf(const wide_svdf_t *k, const box_t *box)
{
    int32_t c;
    int32_t r;
    for (c = box->c0; c < box->c1; c++) {
        int32_t sum = (k->bias != NULL) ? k->bias[c] : 0;
        for (r = 0; r < k->rank; r++) {
            sum += wide_svdf_filter(k, at(&k->in, 0, 0, 0), (c * k->rank) + r);
        }
        sum = scaled(sum, k->time_multiplier, k->time_shift) + k->out_zero;
        *at(&k->out, 0, 0, c) = clamped(sum, INT8_MIN, INT8_MAX);
    }
}
