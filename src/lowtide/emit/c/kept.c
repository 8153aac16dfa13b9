/* What operators keep from one run to the next, so that all zeros are the beginning. */
static int8_t kept_results[STATE_BYTES];

