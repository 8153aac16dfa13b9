// CMSIS-NN's own answers to how much scratch a layer needs. Each line of the input is a question:
//   conv|conv16|deep|deep4 SIMD n h w c filter_h filter_w filter_c out_h out_w out_c stride_h stride_w pad_h pad_w dil_h dil_w
//   pool|pool16 SIMD out_w c          rows|svdf SIMD outputs
//   turned SIMD h w c filter_n filter_h filter_w out_c stride_h stride_w          prints two sizes
// SIMD: 0 none, 1 DSP, 2 MVE. An answer for no instructions is that of this build.

#include <stdio.h>
#include <string.h>

#include "arm_nnfunctions.h"

static int convolution(const char *kind, int simd, const int *v)
{
    const cmsis_nn_dims in = {v[0], v[1], v[2], v[3]}, filter = {1, v[4], v[5], v[6]}, out = {v[0], v[7], v[8], v[9]};
    const cmsis_nn_tile stride = {v[11], v[10]}, pad = {v[13], v[12]}, dilation = {v[15], v[14]};
    cmsis_nn_conv_params conv = {0};
    cmsis_nn_dw_conv_params deep = {0};
    conv.stride = deep.stride = stride;
    conv.padding = deep.padding = pad;
    conv.dilation = deep.dilation = dilation;
    if (strcmp(kind, "conv") == 0)
    {
        return simd == 2 ? arm_convolve_wrapper_s8_get_buffer_size_mve(&conv, &in, &filter, &out)
            : simd == 1 ? arm_convolve_wrapper_s8_get_buffer_size_dsp(&conv, &in, &filter, &out)
                        : arm_convolve_wrapper_s8_get_buffer_size(&conv, &in, &filter, &out);
    }
    if (strcmp(kind, "conv16") == 0)
    {
        return simd == 2 ? arm_convolve_wrapper_s16_get_buffer_size_mve(&conv, &in, &filter, &out)
            : simd == 1 ? arm_convolve_wrapper_s16_get_buffer_size_dsp(&conv, &in, &filter, &out)
                        : arm_convolve_wrapper_s16_get_buffer_size(&conv, &in, &filter, &out);
    }
    if (strcmp(kind, "deep") == 0)
    {
        return simd == 2 ? arm_depthwise_conv_wrapper_s8_get_buffer_size_mve(&deep, &in, &filter, &out)
            : simd == 1 ? arm_depthwise_conv_wrapper_s8_get_buffer_size_dsp(&deep, &in, &filter, &out)
                        : arm_depthwise_conv_wrapper_s8_get_buffer_size(&deep, &in, &filter, &out);
    }
    return simd == 2 ? arm_depthwise_conv_wrapper_s4_get_buffer_size_mve(&deep, &in, &filter, &out)
        : simd == 1 ? arm_depthwise_conv_wrapper_s4_get_buffer_size_dsp(&deep, &in, &filter, &out)
                    : arm_depthwise_conv_wrapper_s4_get_buffer_size(&deep, &in, &filter, &out);
}

static int pooling(const char *kind, int simd, int out_w, int depth)
{
    if (strcmp(kind, "pool") == 0)
    {
        return simd == 2 ? arm_avgpool_s8_get_buffer_size_mve(out_w, depth)
            : simd == 1 ? arm_avgpool_s8_get_buffer_size_dsp(out_w, depth)
                        : arm_avgpool_s8_get_buffer_size(out_w, depth);
    }
    return simd == 2 ? arm_avgpool_s16_get_buffer_size_mve(out_w, depth)
        : simd == 1 ? arm_avgpool_s16_get_buffer_size_dsp(out_w, depth)
                    : arm_avgpool_s16_get_buffer_size(out_w, depth);
}

static int sums(const char *kind, int simd, int outputs)
{
    const cmsis_nn_dims rows = {outputs, 1, 1, outputs};
    if (strcmp(kind, "rows") == 0)
    {
        return simd == 2 ? arm_fully_connected_s8_get_buffer_size_mve(&rows)
            : simd == 1 ? arm_fully_connected_s8_get_buffer_size_dsp(&rows)
                        : arm_fully_connected_s8_get_buffer_size(&rows);
    }
    return simd == 2 ? arm_svdf_s8_get_buffer_size_mve(&rows)
        : simd == 1 ? arm_svdf_s8_get_buffer_size_dsp(&rows)
                    : arm_svdf_s8_get_buffer_size(&rows);
}

int main(void)
{
    char kind[16];
    int simd, v[16];
    while (scanf("%15s %d", kind, &simd) == 2)
    {
        const int count = kind[0] == 'c' || kind[0] == 'd' ? 16 : kind[0] == 'p' ? 2 : kind[0] == 't' ? 9 : 1;
        for (int i = 0; i < count; ++i)
        {
            if (scanf("%d", &v[i]) != 1) return 65;
        }
        if (count == 16)
        {
            printf("%d\n", convolution(kind, simd, v));
        }
        else if (count == 2)
        {
            printf("%d\n", pooling(kind, simd, v[0], v[1]));
        }
        else if (count == 1)
        {
            printf("%d\n", sums(kind, simd, v[0]));
        }
        else
        {
            const cmsis_nn_dims in = {1, v[0], v[1], v[2]}, filter = {v[3], v[4], v[5], v[2]}, out = {1, 1, 1, v[6]};
            cmsis_nn_transpose_conv_params conv = {0};
            conv.stride.h = v[7];
            conv.stride.w = v[8];
            const int size = simd == 2 ? arm_transpose_conv_s8_get_buffer_size_mve(&conv, &in, &filter, &out)
                                       : arm_transpose_conv_s8_get_buffer_size(&conv, &in, &filter, &out);
            printf("%d %d\n", size, arm_transpose_conv_s8_get_reverse_conv_buffer_size(&conv, &in, &filter));
        }
    }
    return 0;
}
