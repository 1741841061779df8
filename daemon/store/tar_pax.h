/* The records of a pax extension header: "LENGTH KEY=VALUE\n" each. */
#ifndef TAR_PAX_H
#define TAR_PAX_H

#include <stdint.h>

#include "store/tar_member.h"

/* Takes up what matters to a reader; NULL, or what is wrong with the records. */
const char *tar_pax_parse(struct tar_extra *extra, const char *body, uint64_t size);
void tar_extra_done(struct tar_extra *extra);

#endif
