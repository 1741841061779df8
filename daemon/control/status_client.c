#include "control/status_client.h"

#include "control/session.h"

static void fill_rates(const struct census *census, struct view *view)
{
    const struct window_rates *rates = &view->rates;
    Dlp__ClientStatus *out = &view->status;
    out->window_s = rates->window_s;
    out->samples_per_s = rates->samples_per_s;
    out->bytes_per_s = rates->bytes_per_s;
    out->wait_share = rates->wait_share;
    out->hold_share = rates->hold_share;
    out->ready_share = rates->ready_share;
    out->compute_limit = rates->compute_limit;
    out->slots_held_share = census_slots_held(census, view);
    out->read_limit = rates->read_limit;
    out->read_bytes_per_s = rates->read_bytes_per_s;
    out->decode_per_worker = rates->decode_per_worker;
    out->decode_limit = census_decode_limit(census, view);
}

static void fill_totals(const struct gauge *gauge, uint64_t now, Dlp__ClientStatus *out)
{
    out->samples = gauge->samples;
    out->batches = gauge->batches;
    out->bytes = gauge->bytes;
    out->wait_ns = gauge_wait_told(gauge);
    out->hold_ns = gauge_holding(gauge, now);
    out->waiting_ns = gauge_waiting(gauge, now);
}

static void fill_stalls(const struct census *census, struct view *view)
{
    const struct gauge *gauge = view->session->gauge;
    Dlp__ClientStatus *out = &view->status;
    out->stalls = gauge->stalls;
    out->longest_stall_ns = gauge->longest_stall_ns;
    out->last_cause = (char *)gauge_cause_name(gauge_last_cause(gauge, census->now, &view->stats));
    out->causes = view->cause_list;
    for (int cause = GAUGE_NONE + 1; cause < GAUGE_CAUSES; cause++) {
        const struct gauge_stalls *stalls = &gauge->by_cause[cause];
        Dlp__CauseStatus *it = &view->causes[out->n_causes];
        if (!stalls->count)
            continue;
        dlp__cause_status__init(it);
        it->name = (char *)gauge_cause_name((enum gauge_cause)cause);
        it->stalls = stalls->count;
        it->wait_ns = stalls->wait_ns;
        out->causes[out->n_causes++] = it;
    }
}

static void fill_waits(const struct waits *waits, Dlp__ClientStatus *out)
{
    out->wait_p50_ns = waits_quantile(waits, 0.5);
    out->wait_p99_ns = waits_quantile(waits, 0.99);
    out->wait_max_ns = waits->max_ns;
    out->wait_counts = (uint64_t *)waits->classes;
    out->n_wait_counts = DLP_WAIT_CLASSES;
}

static void fill_stages(const struct census *census, struct view *view)
{
    struct stages sum = {.workers = census_workers_left(census, view), .work = view->stats.work};
    stages_add(&sum, &view->rates, &view->stats);
    stages_fill(&sum, &view->stages);
    view->status.stages = view->stages.list;
    view->status.n_stages = STAGES;
}

void status_client_figures(const struct census *census, struct view *view)
{
    const struct gauge *gauge = view->session->gauge;
    fill_rates(census, view);
    fill_totals(gauge, census->now, &view->status);
    fill_stalls(census, view);
    fill_waits(&gauge->waits, &view->status);
    fill_stages(census, view);
    view->status.read_bytes = view->stats.work.read_bytes;
    view->status.share_wait_ns = view->stats.work.share_wait_ns;
    view->status.share = view->share;
}
