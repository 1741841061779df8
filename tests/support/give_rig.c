#include "give_rig.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "proto/frames.h"
#include "scratch.h"

#define SHARDS_MAX 300

static struct scratch scratch;
static char *shards[SHARDS_MAX];
static uint32_t nshards;

void give_start(void)
{
    scratch_make(&scratch);
    NEED(chdir(scratch.path) == 0);
}

void give_end(void)
{
    while (nshards)
        free(shards[--nshards]);
    scratch_remove(&scratch);
}

const char *give_folder(void)
{
    return scratch.path;
}

uint32_t give_count(void)
{
    return nshards;
}

void give_shards(uint32_t count, const char *folder, dataload_options *options)
{
    for (nshards = 0; nshards < count; nshards++) {
        NEED(asprintf(&shards[nshards], "%s%u.tar", folder, nshards) > 0);
        FILE *file = fopen(shards[nshards], "w");
        NEED(file && fwrite(&nshards, sizeof nshards, 1, file) == 1);
        fclose(file);
    }
    options->recipe = GIVE_RECIPE;
    options->files = (const char *const *)shards;
    options->nfiles = nshards;
}

uint32_t give_hear_portion(struct fake *f, uint32_t first)
{
    Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_GIVE_FILES);
    NEED(f->nheard == env->give_files->n_names && f->nheard > 0);
    for (uint32_t i = 0; i < f->nheard; i++) {
        uint32_t value = 0;
        NEED(read(f->heard[i], &value, sizeof value) == sizeof value && value == first + i);
        NEED((fcntl(f->heard[i], F_GETFL) & O_ACCMODE) == O_RDONLY);
        char *path;
        NEED(asprintf(&path, "%s/%s", scratch.path, shards[first + i]) > 0);
        size_t cut = strlen(path) > DLP_TEXT_MAX ? strlen(path) - DLP_TEXT_MAX : 0;
        NEED(strcmp(env->give_files->names[i], path + cut) == 0);
        free(path);
    }
    uint32_t count = (uint32_t)f->nheard;
    dlp_frame_free(env);
    return count;
}

void give_hear_feed(struct fake *f)
{
    fake_hello(f);
    Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_GIVE_FEED);
    NEED(strcmp(env->give_feed->recipe, GIVE_RECIPE) == 0 && env->give_feed->files == nshards);
    dlp_frame_free(env);
}

void give_hear_attach(struct fake *f)
{
    Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_ATTACH);
    NEED(strcmp(env->attach->feed, FAKE_OWN) == 0);
    dlp_frame_free(env);
    fake_reply(f);
}

void give_hear_beginning(struct fake *f)
{
    give_hear_feed(f);
    fake_progress(f, "another's turn");
    fake_feed_named(f);
}

void give_hear_all(struct fake *f, uint32_t most, useconds_t late)
{
    give_hear_beginning(f);
    for (uint32_t taken = 0; taken < nshards;) {
        uint32_t count = give_hear_portion(f, taken);
        NEED(count <= most);
        usleep(late);
        fake_files_taken(f, taken += count);
    }
    give_hear_attach(f);
}
