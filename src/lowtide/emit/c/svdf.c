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

/* A result as TFLM keeps it, with its zero in 8 bits, less the zero. */
static int32_t with_zero(int32_t value, int32_t zero)
{
    return (int32_t)(int8_t)(uint8_t)((uint32_t)(value + zero) & 0xFFU) - zero;
}

/* What one filter adds: the newest result takes the place of the oldest one. */
static int32_t svdf_filter(const svdf_t *k, const int8_t *in, int32_t filter)
{
    int8_t *kept = &kept_results[k->state + (filter * k->memory)];
    const int8_t *times = &k->times[filter * k->memory];
    int32_t zero = k->state_zero;
    int32_t last = k->memory - 1;
    int32_t newest = dot(in, &k->features[filter * k->in_c], k->in_c, k->in_zero);
    int32_t sum = 0;
    int32_t i;
    newest = most(INT8_MIN, least(INT8_MAX, scaled(newest, k->feature_multiplier, k->feature_shift)));
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4
#endif
    for (i = 0; i < last; i++) {
        int32_t value = kept[i + 1];
        kept[i] = (int8_t)value;
        sum += with_zero(value, zero) * (int32_t)times[i];
    }
    kept[last] = (int8_t)newest;
    sum += with_zero(newest, zero) * (int32_t)times[last];
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
