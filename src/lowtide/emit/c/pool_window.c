/* Rows and columns of the input that a pixel of the result reads. */
static box_t window_of(const pool_t *k, int32_t y, int32_t x)
{
    box_t window = {0, 0, 0, 0, 0, 0};
    window.y0 = most(0, (y * k->stride_h) - k->top);
    window.y1 = least(k->in_h, (y * k->stride_h) - k->top + k->kernel_h);
    window.x0 = most(0, (x * k->stride_w) - k->left);
    window.x1 = least(k->in_w, (x * k->stride_w) - k->left + k->kernel_w);
    return window;
}
