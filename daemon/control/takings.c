#include "control/takings.h"

void takings_add(struct takings *sum, const struct gauge *gauge, uint64_t now)
{
    sum->batches += gauge->batches;
    sum->samples += gauge->samples;
    sum->bytes += gauge->bytes;
    sum->wait_ns += gauge_wait_told(gauge);
    sum->hold_ns += gauge_holding(gauge, now);
    for (size_t i = 0; i < DLP_WAIT_CLASSES; i++)
        sum->waits[i] += gauge->waits.classes[i];
    for (size_t i = 0; i < GAUGE_CAUSES; i++) {
        sum->stalls[i].count += gauge->by_cause[i].count;
        sum->stalls[i].wait_ns += gauge->by_cause[i].wait_ns;
    }
}

void takings_fill(struct takings_status *takings, Dlp__FeedStatus *out)
{
    struct takings *sum = &takings->sum;
    out->batches = sum->batches;
    out->samples = sum->samples;
    out->bytes = sum->bytes;
    out->wait_ns = sum->wait_ns;
    out->hold_ns = sum->hold_ns;
    out->wait_counts = sum->waits;
    out->n_wait_counts = DLP_WAIT_CLASSES;
    out->causes = takings->list;
    out->n_causes = 0;
    for (int cause = GAUGE_NONE + 1; cause < GAUGE_CAUSES; cause++) {
        Dlp__CauseStatus *it = &takings->causes[out->n_causes];
        dlp__cause_status__init(it);
        it->name = (char *)gauge_cause_name((enum gauge_cause)cause);
        it->stalls = sum->stalls[cause].count;
        it->wait_ns = sum->stalls[cause].wait_ns;
        out->causes[out->n_causes++] = it;
    }
}
