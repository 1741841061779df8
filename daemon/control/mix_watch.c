#include "control/mix_watch.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "control/group.h"
#include "feed/labels.h"
#include "feed/mix_check.h"
#include "proto/frames.h"

struct mix_task {
    const struct feed_spec *spec;
    struct dataset *dataset; /* our own reference */
    struct plan_settings order;
    struct steps steps;
    uint64_t epoch;
    _Atomic bool cancel;
    _Atomic uint64_t done;
    char note[DLP_TEXT_MAX]; /* "" = well mixed */
};

struct mix_watch {
    struct control *control;
    struct mix_task *task; /* of the errand; NULL = none */
    const struct job *job; /* of the task: compared, never looked into */
    char plan_id[17];
    struct errand errand;
};

struct mix_task *mix_task_new(struct job *job, const struct feed_spec *spec, uint64_t epoch)
{
    if (job->probe || !spec->shuffle || job->mix_checked > epoch ||
        !labels_indexed(spec, job->dataset))
        return NULL;
    job->mix_checked = epoch + 1;
    struct mix_task *task = mem_new(sizeof *task);
    task->spec = spec_ref(spec);
    task->dataset = dataset_ref(job->dataset);
    task->order =
        (struct plan_settings){.seed = job->seed, .shuffle = spec->shuffle, .lanes = spec->lanes};
    task->steps = (struct steps){.records = dataset_records(job->dataset),
                                 .start = epoch == job->start.epoch ? job->start.position : 0,
                                 .lanes = spec->lanes,
                                 .world = job->world,
                                 .batch = job->batch,
                                 .tail = spec->tail};
    task->epoch = epoch;
    return task;
}

void mix_task_free(struct mix_task *task)
{
    if (!task)
        return;
    dataset_unref(task->dataset);
    spec_unref(task->spec);
    free(task);
}

void mix_task_cancel(struct mix_task *task)
{
    if (task)
        task->cancel = true;
}

static void write_note(struct mix_task *task, const struct mix_answer *answer)
{
    size_t size = sizeof task->note;
    size_t used = (size_t)snprintf(task->note, size, "epoch %" PRIu64 ": ", task->epoch);
    for (uint32_t i = 0; i < answer->nnotes && used < size; i++)
        used += (size_t)snprintf(task->note + used, size - used, "%s%s", i ? "; " : "",
                                 answer->notes[i]);
}

void mix_task_look(struct mix_task *task)
{
    if (!task)
        return;
    const struct mix_question question = {.spec = task->spec,
                                          .dataset = task->dataset,
                                          .order = task->order,
                                          .steps = task->steps,
                                          .epoch = task->epoch,
                                          .cancel = &task->cancel,
                                          .done = &task->done};
    cleanup_free struct mix_answer *answer = mem_new(sizeof *answer);
    if (mix_check(&question, answer, NULL) == 0 && answer->labels && answer->by_class.poor)
        write_note(task, answer);
}

void mix_task_keep(struct mix_task *task, struct job *job)
{
    if (!task)
        return;
    free(job->mix_note);
    job->mix_note = *task->note ? mem_string(task->note) : NULL;
    if (job->mix_note)
        log_event(LOG_WARNING, log_about(LOG_ORDER_POOR, .feed = job->feed), "feed %s, %s %s: %s",
                  job->feed, jobs_word(job->shared), job->name, job->mix_note);
}

struct mix_watch *mix_watch_new(struct control *control)
{
    struct mix_watch *watch = mem_new(sizeof *watch);
    watch->control = control;
    return watch;
}

void mix_watch_free(struct mix_watch *watch)
{
    free(watch);
}

static void drop_task(struct mix_watch *watch)
{
    mix_task_free(watch->task);
    watch->task = NULL;
}

bool mix_watch_stop(struct mix_watch *watch)
{
    mix_task_cancel(watch->task);
    if (watch->task && errands_leave(&watch->errand))
        drop_task(watch);
    return watch->task;
}

static struct mix_watch *of_errand(struct errand *errand)
{
    return (struct mix_watch *)(void *)((char *)errand - offsetof(struct mix_watch, errand));
}

static void look(struct errand *errand)
{
    mix_task_look(of_errand(errand)->task);
}

static void looked(struct errand *errand)
{
    struct mix_watch *watch = of_errand(errand);
    struct control *control = watch->control;
    for (struct group *group = control->groups; group; group = group->next) {
        struct job *job = group->job;
        if (job != watch->job || !job || strcmp(job->plan_id, watch->plan_id) != 0)
            continue;
        mix_task_keep(watch->task, job);
        break;
    }
    drop_task(watch);
    errands_end(errand);
    control_settled(control);
}

void mix_watch_tick(struct mix_watch *watch)
{
    if (watch->task)
        return;
    for (struct group *group = watch->control->groups; group && !watch->task; group = group->next) {
        if (group->state != GROUP_STREAMING)
            continue;
        watch->task = mix_task_new(group->job, group->params.spec, group->place.epoch);
        watch->job = group->job;
        memcpy(watch->plan_id, group->job->plan_id, sizeof watch->plan_id);
    }
    if (!watch->task)
        return;
    watch->errand = (struct errand){.run = look, .ran = looked};
    errands_add(watch->control->errands, &watch->errand);
}
