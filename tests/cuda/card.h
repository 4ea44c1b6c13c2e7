/* What tests on a card share. */
#ifndef CARD_H
#define CARD_H

#include <stddef.h>
#include <tapconv.h>

static const tapconv_plan_options cuda = {.device = TAPCONV_CUDA};

/* Whether there is a card; if not, says so as CTest expects it of a skipped test. */
int card_is_there(void);

/* Memory of the card, with a copy of the host's bytes unless `host` is NULL. */
void *to_card(const void *host, size_t bytes);

#endif
