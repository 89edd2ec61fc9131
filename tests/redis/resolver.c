/* Preloaded into the client: names that end in ".test" lead to 127.0.0.1, and "two.test" to 127.0.0.2 as well. In the
   directory that QUORLOCK_RESOLVER names, each look-up of such a name adds a byte to the file "calls", and hangs for
   as long as there is a file "hung". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    resolver *system = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
    size_t length = name ? strlen(name) : 0;
    if (length < 5 || strcmp(name + length - 5, ".test")) return system(name, service, hints, found);
    char calls[4096], hung[4096];
    snprintf(calls, sizeof calls, "%s/calls", getenv("QUORLOCK_RESOLVER"));
    snprintf(hung, sizeof hung, "%s/hung", getenv("QUORLOCK_RESOLVER"));
    int file = open(calls, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0 || write(file, "x", 1) != 1 || close(file)) abort();
    while (!access(hung, F_OK)) usleep(5000);
    int error = system("127.0.0.1", service, hints, found);
    if (error || strcmp(name, "two.test")) return error;
    struct addrinfo *last = *found;
    while (last->ai_next) last = last->ai_next;
    return system("127.0.0.2", service, hints, &last->ai_next);
}
