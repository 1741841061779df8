#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/ctl/ctl_terminal.h"
#include "client/ctl/ctl_top_link.h"
#include "client/ctl/ctl_top_view.h"

#define SECOND 1000000000U

struct top {
    struct top_link link;
    struct top_view view;
    struct history history;
    uint64_t interval, asked; /* ns */
    sigset_t awake;           /* the signals while it waits */
};

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
    (void)number;
    ended = 1;
}

/* They end the waiting, and nothing else: no moment is left in which one is lost. */
static void catch_signals(sigset_t *awake)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        sigaction(numbers[i], &action, NULL);
        sigaddset(&held, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &held, awake);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static void draw(struct top *top, uint64_t now)
{
    char trouble[600];
    struct screen screen = {0};
    bool known = top->link.report.nparts > 0;
    top_link_trouble(&top->link, now, trouble, sizeof(trouble));
    struct top_facts facts = {.status = known ? ctl_reply_body(&top->link.report) : NULL,
                              .history = &top->history,
                              .seconds = (double)now / SECOND,
                              .trouble = trouble};
    terminal_size(&screen);
    top_view_draw(&top->view, &facts, &screen);
    terminal_draw(&screen);
    screen_free(&screen);
}

/* False: leave. */
static bool take_keys(struct top *top)
{
    for (int key; (key = terminal_key()) >= 0;) {
        if (key == 'q')
            return false;
        top_view_key(&top->view, key);
    }
    return true;
}

/* For a key, news of the daemon, or a second's silence. False: the terminal has gone. */
static bool wait_for_news(struct top *top, uint64_t now)
{
    struct pollfd polls[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = -1}};
    polls[1].fd = top_link_poll(&top->link, &polls[1].events);
    bool rests = top->link.state == TOP_LINK_RESTS;
    uint64_t next = top->asked + top->interval;
    uint64_t left = !rests ? SECOND : next > now ? next - now : 0;
    struct timespec time = {.tv_sec = (time_t)(left / SECOND), .tv_nsec = (long)(left % SECOND)};
    if (ppoll(polls, 2, &time, &top->awake) < 0)
        return errno == EINTR;
    now = now_ns();
    if (polls[1].revents && top_link_ready(&top->link, now))
        history_add(&top->history, ctl_reply_body(&top->link.report), (double)now / SECOND);
    return !(polls[0].revents & (POLLHUP | POLLERR | POLLNVAL));
}

static void run(struct top *top)
{
    bool goes_on = true;
    while (goes_on && !ended) {
        uint64_t now = now_ns();
        bool rests = top->link.state == TOP_LINK_RESTS;
        if (!rests || now - top->asked >= top->interval) {
            top->asked = rests ? now : top->asked;
            top_link_ask(&top->link, now);
        }
        draw(top, now);
        goes_on = wait_for_news(top, now) && take_keys(top);
    }
}

int ctl_top(const struct ctl *ctl)
{
    char why[128];
    struct ctl_link link;
    int code = ctl_link_open(ctl, "dataloadctl top", &link);
    if (code)
        return code;
    ctl_link_close(&link); /* it runs */
    struct top top = {.interval = (uint64_t)((ctl->watch > 0 ? ctl->watch : 1) * SECOND)};
    if (!terminal_open(why, sizeof(why)))
        return ctl_fail(ctl, CTL_UNAVAILABLE,
                        "top needs a terminal, and %s: use dataloadctl status --watch", why);
    catch_signals(&top.awake);
    top_link_init(&top.link, ctl);
    run(&top);
    terminal_close();
    top_link_close(&top.link);
    history_free(&top.history);
    return CTL_OK;
}
