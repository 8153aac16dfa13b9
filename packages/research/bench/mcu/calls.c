/* Prints what each call of the library took: linked with --wrap of its functions. */
#include "qemu_board.h"

#include <arm_nnfunctions.h>

static double tick;

static void report(const char *what, const cmsis_nn_dims *in, const cmsis_nn_dims *filter, const cmsis_nn_dims *out,
                   uint64_t began)
{
    uint64_t ticks = board_now() - began;
    const int32_t sizes[] = {in->h, in->w, in->c, filter->h, filter->w, out->h, out->w, out->c};
    unsigned int i;
    if (tick == 0.0) {
        tick = board_tick();
    }
    board_write("call ");
    board_write(what);
    for (i = 0; i < (sizeof sizes / sizeof sizes[0]); i++) {
        board_write(" ");
        board_number((uint64_t)sizes[i]);
    }
    board_write(" ");
    board_number((uint64_t)((double)ticks * tick));
    board_write("\n");
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
