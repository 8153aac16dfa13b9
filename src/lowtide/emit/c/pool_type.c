/* Pools over windows. */
typedef struct {
    view_t in, out;
    int32_t in_h, in_w;
    int32_t kernel_h, kernel_w, stride_h, stride_w, top, left;
    int32_t low, high;
} pool_t;

