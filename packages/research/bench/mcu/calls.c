/* Prints what each call of the library took: linked with --wrap of its functions. */
#include "board.h"

#include <arm_nnfunctions.h>
#include <stdio.h>

static double tick;
extern uint64_t board_now(void);

static void report(const char *what, const cmsis_nn_dims *in, const cmsis_nn_dims *filter, const cmsis_nn_dims *out,
                   uint64_t began)
{
    uint64_t ticks = board_now() - began;
    if (tick == 0.0) {
        tick = board_tick();
    }
    printf("call %s %ld %ld %ld %ld %ld %ld %ld %ld %.0f\n", what, (long)in->h, (long)in->w, (long)in->c,
           (long)filter->h, (long)filter->w, (long)out->h, (long)out->w, (long)out->c, (double)ticks * tick);
}

#define CONVOLUTION(what, name, params_type)                                                                            \
    arm_cmsis_nn_status __real_##name(const cmsis_nn_context *, const params_type *,                                    \
                                      const cmsis_nn_per_channel_quant_params *, const cmsis_nn_dims *, const int8_t *,  \
                                      const cmsis_nn_dims *, const int8_t *, const cmsis_nn_dims *, const int32_t *,     \
                                      const cmsis_nn_dims *, int8_t *);                                                  \
    arm_cmsis_nn_status __wrap_##name(const cmsis_nn_context *c, const params_type *p,                                  \
                                      const cmsis_nn_per_channel_quant_params *q, const cmsis_nn_dims *in,               \
                                      const int8_t *x, const cmsis_nn_dims *f, const int8_t *w,                          \
                                      const cmsis_nn_dims *bd, const int32_t *b, const cmsis_nn_dims *out, int8_t *y)    \
    {                                                                                                                    \
        uint64_t began = board_now();                                                                                    \
        arm_cmsis_nn_status status = __real_##name(c, p, q, in, x, f, w, bd, b, out, y);                                \
        report(what, in, f, out, began);                                                                                 \
        return status;                                                                                                   \
    }

CONVOLUTION("conv", arm_convolve_wrapper_s8, cmsis_nn_conv_params)
CONVOLUTION("depthwise", arm_depthwise_conv_wrapper_s8, cmsis_nn_dw_conv_params)
