/*
 * Signs requests as the kind sigv4 does, for comparisons with other signers: one request a
 * line, tab-separated, "s3" or another service, method, path, query, hash of the body, then
 * name:value of each field; the value of Authorization for the key of AWS's examples comes
 * back, a line each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connectors/sigv4.h"

enum { LINE_MAX = 65536, FIELDS = 32 };

static const struct sigv4_keys keys = { { "AKIDEXAMPLE", 11 },
					{ "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
					  40 },
					{ "", 0 } };

static void
sign(struct str line)
{
	CLEANUP(cred_done) struct cred out = { 0 };
	struct field fields[FIELDS];
	struct str service = str_cut(&line, '\t');
	struct sigv4_scope scope = { STR("us-east-1"), service, 1440938160 };
	struct canon c = { .method = str_cut(&line, '\t'), .fields = fields };

	c.path = str_cut(&line, '\t');
	c.query = str_cut(&line, '\t');
	c.payload = str_cut(&line, '\t');
	c.is_s3 = str_eq(service, STR("s3"));
	while (line.p != NULL && c.fields_n < FIELDS) {
		struct str value = str_cut(&line, '\t'), name = str_cut(&value, ':');
		fields[c.fields_n++] = (struct field){ name, value, TOKEN_NONE };
	}
	cred_init(&out, LINE_MAX);
	if (sigv4_put_authorization(&out, &c, &scope, &keys) == ST_OK)
		printf("%.*s\n", STR_ARG(cred_since(&out, 0)));
	else
		printf("-\n");
}

int
main(void)
{
	char *line = malloc(LINE_MAX);

	while (line != NULL && fgets(line, LINE_MAX, stdin) != NULL)
		sign(str_of(line, strcspn(line, "\n")));
	free(line);
	return 0;
}
