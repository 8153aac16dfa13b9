/* A variable of the model, kept from one run to the next as what it differs in from where it begins. */
typedef struct {
    int32_t at, kept, bytes; /* where the tensor begins, and where the variable does */
    int32_t writes;          /* 0: the variable is read, 1: it is written */
    int32_t begins;          /* the byte that all of it begins as, or.. */
    const int8_t *beginning; /* .. each of them; or none */
} remember_t;

static void remember(const remember_t *k, const box_t *box)
{
    int8_t *tensor = bytes_at(k->at);
    int8_t *kept = &kept_results[k->kept];
    int32_t i;
    (void)box; /* all of it */
    for (i = 0; i < k->bytes; i++) {
        uint32_t begins = (uint32_t)((k->beginning != NULL) ? (int32_t)k->beginning[i] : k->begins);
        if (k->writes != 0) {
            kept[i] = (int8_t)(uint8_t)(((uint32_t)tensor[i] ^ begins) & 0xFFU);
        } else {
            tensor[i] = (int8_t)(uint8_t)(((uint32_t)kept[i] ^ begins) & 0xFFU);
        }
    }
}
