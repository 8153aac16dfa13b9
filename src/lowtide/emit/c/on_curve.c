/* Values of the logistic function for 0, 1/24, 2/24 ..., 16 bits right of the point; lines between them. */
static uint32_t on_curve(const uint16_t *curve, uint32_t size, uint32_t bits)
{
    uint32_t place = size >> bits;
    uint32_t below;
    if (place >= 255U) {
        return ((bits == 8U) ? 0xFFFFU : 0xFFFEU) << bits;
    }
    below = curve[place];
    return (below << bits) + ((size & (((uint32_t)1 << bits) - 1U)) * ((uint32_t)curve[place + 1U] - below));
}
