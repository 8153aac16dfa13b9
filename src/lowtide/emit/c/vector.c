#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

typedef int32x4_t four_t;

#if !MODEL_SINGLE_ROUNDING
/* As `scaled` of four numbers, where no shift is to the left. */
INLINED four_t scaled_four(four_t values, four_t multiplier, four_t shift)
{
    four_t high = vqrdmulhq_s32(values, multiplier);
    high = vqaddq_s32(high, vshrq_n_s32(vandq_s32(high, shift), 31)); /* halves go away from zero */
    return vrshlq_s32(high, shift);
}

INLINED void store_four(int8_t *to, four_t values, int32_t low, int32_t high)
{
    vstrbq_s32(to, vmaxq_s32(vminq_s32(values, vdupq_n_s32(high)), vdupq_n_s32(low)));
}
#endif
#endif

