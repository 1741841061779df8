/* The pages "report.json" and "report.html": the figures of status, with the last ten minutes of
 * each client that is shown; what proto/page/page.h asks for. Loop thread. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "base/text.h"
#include "control/status.h"

void report_page_json(const struct status *status, struct text *out);
void report_page_html(const struct status *status, struct text *out);

#endif
