#ifndef PROXY_CLI_AUDIT_H
#define PROXY_CLI_AUDIT_H
/* audit: the part of `sandgate audit` in a file of its own.  Returns the exit code. */

int audit_verify(int argc, char **argv);

#endif
