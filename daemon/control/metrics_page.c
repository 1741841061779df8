#include "control/metrics_page.h"

void metrics_page(const struct status *status, struct text *out)
{
    text_add(out, "# HELP dataload_clients Trainers that are attached or attach.\n"
                  "# TYPE dataload_clients gauge\ndataload_clients ");
    text_add_number(out, status->reply.n_clients);
    text_add(out, "\n");
}
