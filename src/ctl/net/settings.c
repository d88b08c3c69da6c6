/*
 * settings.c - see settings.h. Thread: one.
 */
#include "src/ctl/net/settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/address.h"
#include "src/base/assert.h"

const struct option_about SETTINGS_ABOUT[] = {
    [SETTING_SERVER] =
        {"server", 0, "HOST:PORT,...",
         "addresses of nodes, either listener, with https:// before them for TLS; one "
         "that answers is asked (default: the nodes that make run started in this "
         "folder, otherwise " SETTINGS_SERVER_DEFAULT ")"},
    [SETTING_CA] = {"ca", 0, "FILE", "certificates of authorities to trust, in PEM; asks over TLS"},
    [SETTING_CERT] = {"cert", 0, "FILE", "certificate to show, in PEM; asks over TLS"},
    [SETTING_KEY] = {"key", 0, "FILE", "its key, in PEM"},
    [SETTING_TOKEN_FILE] = {"token-file", 0, "FILE",
                            "file with the token to show (or the token itself in LEAFCTL_TOKEN)"},
    [SETTING_TIMEOUT] = {"timeout", 0, "SECONDS",
                         "how long an answer may take, 1 to 3600 (default 10)"},
    [SETTING_CONFIG] = {"config", 0, "FILE",
                        "settings for what no flag and no variable of the "
                        "environment says (default ~/.config/leafctl/config)"},
    [SETTINGS] = {"json", 0, NULL, "answers for programs"},
    {NULL, 0, NULL, NULL},
};

void settings_set(struct settings *settings, enum setting setting, const char *value)
{
    free(settings->values[setting]);
    settings->values[setting] = MUST_HAVE(strdup(value));
}

static void set_unless_set(struct settings *settings, enum setting setting, const char *value)
{
    if (settings->values[setting] == NULL && value != NULL && *value != '\0') {
        settings_set(settings, setting, value);
    }
}

static void take_environment(struct settings *settings)
{
    for (unsigned setting = 0; setting < SETTINGS; setting++) {
        char name[32] = "LEAFCTL_";
        size_t len = strlen(name);

        for (const char *c = SETTINGS_ABOUT[setting].name; *c != '\0'; c++) {
            name[len++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        }
        set_unless_set(settings, setting, getenv(name));
    }
}

/* A whole file of bounded size, which belongs to this user or to root, without these bits in its
 * mode (rule: why not). 0; ERR_NOT_FOUND: there is none; ERR_INVALID. */
static int settings_read_file(const char *path, mode_t bad_mode, const char *rule, struct buf *out,
                              struct buf *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st = {0};
    ssize_t got = 1;

    if (fd < 0 || fstat(fd, &st) != 0) {
        int seen = errno;

        buf_printf(why, "%s cannot be read: %s", path, strerror(seen));
        if (fd >= 0) {
            (void)close(fd);
        }
        return seen == ENOENT || seen == ENOTDIR ? ERR_NOT_FOUND : ERR_INVALID;
    }
    if (!S_ISREG(st.st_mode)) {
        buf_printf(why, "%s is not a regular file", path);
    } else if (st.st_uid != geteuid() && st.st_uid != 0) {
        buf_printf(why, "%s belongs to another user (%u)", path, (unsigned)st.st_uid);
    } else if ((st.st_mode & bad_mode) != 0) {
        buf_printf(why, "%s has mode %04o: %s; chmod go-%s it", path,
                   (unsigned)(st.st_mode & 07777), rule, (bad_mode & 044) != 0 ? "rwx" : "w");
    }
    buf_reserve(out, SETTINGS_FILE_BYTES + 2);
    while (why->len == 0 && got > 0 && out->len <= SETTINGS_FILE_BYTES) {
        got = read(fd, out->data + out->len, SETTINGS_FILE_BYTES + 1 - out->len);
        out->len += got > 0 ? (size_t)got : 0;
    }
    if (got < 0 || out->len > SETTINGS_FILE_BYTES) {
        buf_printf(why, "%s %s", path, got < 0 ? strerror(errno) : "has more than 65536 bytes");
    } else if (strlen(buf_text(out)) != out->len) {
        buf_printf(why, "%s has a NUL", path);
    }
    (void)close(fd);
    return why->len == 0 ? 0 : ERR_INVALID;
}

static char *settings_trim(char *text)
{
    char *end = text + strlen(text);

    while (end > text && isspace((unsigned char)end[-1])) {
        *--end = '\0';
    }
    while (isspace((unsigned char)*text)) {
        text++;
    }
    return text;
}

/* One line of the file. */
static int take_line(struct settings *settings, const char *path, unsigned number, char *line,
                     struct buf *why)
{
    char *name = settings_trim(line);
    char *equals = strchr(name, '=');
    char *value;

    if (*name == '\0' || *name == '#') {
        return 0;
    }
    if (equals == NULL) {
        buf_printf(why, "%s:%u: not NAME = VALUE", path, number);
        return ERR_INVALID;
    }
    *equals = '\0';
    name = settings_trim(name);
    value = settings_trim(equals + 1);
    for (unsigned setting = 0; setting < SETTING_CONFIG; setting++) {
        if (strcmp(name, SETTINGS_ABOUT[setting].name) == 0) {
            set_unless_set(settings, setting, value);
            return 0;
        }
    }
    buf_printf(why, "%s:%u: there is no setting %.64s%s", path, number, name,
               strcmp(name, "token") == 0 ? "; name a file with it by token-file" : "");
    return ERR_INVALID;
}

static int take_file(struct settings *settings, struct buf *why)
{
    const char *named = settings->values[SETTING_CONFIG];
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    BUF_LOCAL(path);
    BUF_LOCAL(text);
    unsigned number = 0;
    int err = 0;

    if (named != NULL) {
        buf_printf(&path, "%s", named);
    } else if (base != NULL && *base == '/') {
        buf_printf(&path, "%s/leafctl/config", base);
    } else if (home != NULL && *home == '/') {
        buf_printf(&path, "%s/.config/leafctl/config", home);
    } else {
        return 0;
    }
    err = settings_read_file(buf_text(&path), 022,
                             "another user with write access could send your token elsewhere",
                             &text, why);
    if (err == ERR_NOT_FOUND && named == NULL) {
        why->len = 0;
        err = 0;
    } else if (err == 0) {
        char *rest = (char *)text.data;

        for (char *line; err == 0 && (line = strsep(&rest, "\n")) != NULL;) {
            err = take_line(settings, buf_text(&path), ++number, line, why);
        }
    }
    return err == 0 ? 0 : ERR_INVALID;
}

/* A token goes into a header: it must be one word. */
static int settings_take_token(struct settings *settings, const char *from, char *text,
                               struct buf *why)
{
    const char *token = settings_trim(text);
    size_t len = strlen(token);

    if (len == 0 || len > SETTINGS_TOKEN_BYTES) {
        buf_printf(why, "%s has %s", from, len == 0 ? "no token" : "more than a token");
        return ERR_INVALID;
    }
    for (const char *c = token; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~') {
            buf_printf(why, "%s has more than one word, or a character that no token has", from);
            return ERR_INVALID;
        }
    }
    settings->token = MUST_HAVE(strdup(token));
    return 0;
}

static int load_token(struct settings *settings, struct buf *why)
{
    const char *path = settings->values[SETTING_TOKEN_FILE];
    const char *given = getenv("LEAFCTL_TOKEN");
    BUF_LOCAL(text);
    int err = 0;

    if (path != NULL) {
        err = settings_read_file(path, 077, "others may read a token in it", &text, why);
        err = err == 0 ? settings_take_token(settings, path, (char *)text.data, why) : ERR_INVALID;
        explicit_bzero(text.data, text.capacity);
    } else if (given != NULL && *given != '\0') {
        buf_put(&text, given, strlen(given) + 1);
        err = settings_take_token(settings, "LEAFCTL_TOKEN", (char *)text.data, why);
    }
    return err;
}

static int check_key(const struct settings *settings, struct buf *why)
{
    const char *key = settings->values[SETTING_KEY];
    const char *cert = settings->values[SETTING_CERT];
    BUF_LOCAL(text);
    int err = 0;

    if ((key == NULL) != (cert == NULL)) {
        buf_printf(why, "cert and key belong together: %s is missing",
                   key == NULL ? "key" : "cert");
        return ERR_INVALID;
    }
    if (key != NULL) {
        err = settings_read_file(key, 077, "others may read a key in it", &text, why);
        explicit_bzero(text.data, text.capacity);
    }
    return err == 0 ? 0 : ERR_INVALID;
}

static int check_timeout(struct settings *settings, struct buf *why)
{
    const char *text = settings->values[SETTING_TIMEOUT];
    unsigned long seconds = SETTINGS_TIMEOUT_DEFAULT_MS / 1000;
    char *end = NULL;

    if (text != NULL) {
        errno = 0;
        seconds = strtoul(text, &end, 10);
        if (!isdigit((unsigned char)*text) || *end != '\0' || errno != 0 || seconds < 1 ||
            seconds > SETTINGS_TIMEOUT_MAX_S) {
            buf_printf(why, "timeout: \"%s\" is not a number of seconds from 1 to %d", text,
                       SETTINGS_TIMEOUT_MAX_S);
            return ERR_INVALID;
        }
    }
    settings->timeout_ms = (uint32_t)seconds * 1000;
    return 0;
}

/* The nodes that `make run` started below this folder, if it runs (scripts/run-cluster): it holds
 * the lock, and names them in a file that nobody else may write to. They are on this machine: no
 * token goes elsewhere. */
static bool find_local_nodes(struct settings *settings)
{
    int lock = open(SETTINGS_LOCAL "/lock", O_RDONLY | O_CLOEXEC);
    struct flock held = {.l_type = F_RDLCK, .l_whence = SEEK_SET}; /* of all of it */
    bool runs = lock >= 0 && fcntl(lock, F_GETLK, &held) == 0 && held.l_type == F_WRLCK;
    BUF_LOCAL(text);
    BUF_LOCAL(why);
    char *addresses;

    if (lock >= 0) {
        (void)close(lock);
    }
    if (!runs || settings_read_file(SETTINGS_LOCAL "/servers", 022, "", &text, &why) != 0) {
        return false;
    }
    addresses = settings_trim((char *)text.data);
    for (char *address = addresses; *address != '\0'; address += *address == ',') {
        char *end = address + strcspn(address, ",");
        char after = *end;
        bool local;

        *end = '\0';
        local = address_is_loopback(address);
        *end = after;
        if (!local) {
            return false;
        }
        address = end;
    }
    set_unless_set(settings, SETTING_SERVER, addresses);
    return *addresses != '\0';
}

int settings_load(struct settings *settings, struct buf *why)
{
    take_environment(settings);
    if (take_file(settings, why) != 0 || check_timeout(settings, why) != 0 ||
        load_token(settings, why) != 0 || check_key(settings, why) != 0) {
        return ERR_INVALID;
    }
    settings->local = settings->values[SETTING_SERVER] == NULL && find_local_nodes(settings);
    set_unless_set(settings, SETTING_SERVER, SETTINGS_SERVER_DEFAULT);
    return 0;
}

void settings_free(struct settings *settings)
{
    for (unsigned setting = 0; setting < SETTINGS; setting++) {
        free(settings->values[setting]);
    }
    if (settings->token != NULL) {
        explicit_bzero(settings->token, strlen(settings->token));
    }
    free(settings->token);
    *settings = (struct settings){0};
}
