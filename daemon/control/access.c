#include "control/access.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "proto/frames.h"

#define OVERFLOW_DEFAULT 65534U

static uint32_t read_overflow(const char *path)
{
    unsigned value = OVERFLOW_DEFAULT;
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%u", &value) != 1)
            value = OVERFLOW_DEFAULT;
        fclose(file);
    }
    return value;
}

static uint32_t overflow_uid(void)
{
    static uint32_t value;
    if (!value)
        value = read_overflow("/proc/sys/kernel/overflowuid");
    return value;
}

static uint32_t overflow_gid(void)
{
    static uint32_t value;
    if (!value)
        value = read_overflow("/proc/sys/kernel/overflowgid");
    return value;
}

static int read_groups(int fd, struct access_peer *peer)
{
    socklen_t size = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) == 0)
        return 0;
    if (errno != ERANGE)
        return -errno;
    peer->groups = mem_array(size / sizeof(gid_t), sizeof(gid_t));
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, peer->groups, &size) < 0)
        return -errno;
    peer->ngroups = size / sizeof(gid_t);
    return 0;
}

int access_peer_read(int fd, struct access_peer *peer, struct error *err)
{
    struct ucred cred;
    socklen_t size = sizeof cred;
    memset(peer, 0, sizeof *peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
        return error_set(err, -errno, "who the peer is cannot be read: %s", strerror(errno));
    peer->pid = cred.pid;
    peer->uid = cred.uid;
    peer->gid = cred.gid;
    int rc = read_groups(fd, peer);
    if (!rc)
        return 0;
    access_peer_clear(peer);
    return error_set(err, rc, "groups of pid %d cannot be read: %s", (int)cred.pid, strerror(-rc));
}

void access_peer_clear(struct access_peer *peer)
{
    free(peer->groups);
    peer->groups = NULL;
    peer->ngroups = 0;
}

static bool contains(const uint32_t *list, uint32_t count, uint32_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == id)
            return true;
    return false;
}

static bool group_allowed(const struct feed_spec *spec, gid_t gid)
{
    return gid != overflow_gid() && contains(spec->groups, spec->ngroups, gid);
}

bool access_admin(const struct access_peer *peer)
{
    return peer->uid == 0 || (peer->uid == geteuid() && peer->uid != overflow_uid());
}

bool access_allowed(const struct feed_spec *spec, const struct access_peer *peer)
{
    if (!spec->nusers && !spec->ngroups)
        return true;
    if (peer->uid != overflow_uid() && contains(spec->users, spec->nusers, peer->uid))
        return true;
    if (group_allowed(spec, peer->gid))
        return true;
    for (size_t i = 0; i < peer->ngroups; i++)
        if (group_allowed(spec, peer->groups[i]))
            return true;
    return false;
}

bool access_tells(const struct feed_spec *spec, const struct access_peer *viewer)
{
    return viewer && (access_admin(viewer) || access_allowed(spec, viewer));
}

bool access_known(const struct access_peer *peer)
{
    return peer->uid != overflow_uid();
}

char *access_user_name(uid_t uid, char text[ACCESS_USER_MAX])
{
    struct passwd entry, *found = NULL;
    char room[4096];
    if (getpwuid_r(uid, &entry, room, sizeof room, &found) || !found)
        snprintf(text, ACCESS_USER_MAX, "%u", uid);
    else
        dlp_escape(entry.pw_name, text, ACCESS_USER_MAX);
    return text;
}

bool access_owns(const struct access_peer *peer, uid_t uid)
{
    return access_admin(peer) || (peer->uid == uid && uid != overflow_uid());
}
