#include "proxy/cli/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
args_help(int argc, char **argv, const char *usage)
{
	if (argc < 2 || (strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0))
		return;
	exit(fputs(usage, stdout) < 0 || fflush(stdout) != 0 ? 1 : 0);
}

bool
args_wrong(const char *command, const char *why, const char *word)
{
	(void)fprintf(stderr, "sandgate %s: %s `%s`\n", command, why, word);
	return false;
}

bool
args_need(const char *command, const char *what, bool is_there)
{
	return is_there || args_wrong(command, "it wants", what);
}

static const struct arg *
find(const struct arg *args, size_t n, const char *word, const char **ret_inline)
{
	const char *equals = strchr(word, '=');
	size_t len = equals == NULL ? strlen(word) : (size_t)(equals - word);

	*ret_inline = NULL;
	for (size_t i = 0; i < n; i++) {
		if (args[i].letter != 0 && word[1] == args[i].letter && word[2] == '\0')
			return &args[i];
		if (word[1] != '-' || strlen(args[i].name) != len - 2 ||
		    strncmp(word + 2, args[i].name, len - 2) != 0)
			continue;
		*ret_inline = equals == NULL ? NULL : equals + 1;
		return &args[i];
	}
	return NULL;
}

/* Takes the option at argv[i]; returns how many words it used, 0 for none. */
static int
take(int argc, char **argv, int i, const struct arg *args, size_t args_n)
{
	const char *given;
	const struct arg *a = find(args, args_n, argv[i], &given);

	if (a == NULL)
		return 0;
	if (a->value == NULL) {
		*a->flag = true;
		return given == NULL ? 1 : 0;
	}
	if (given != NULL) {
		*a->value = given;
		return 1;
	}
	if (i + 1 >= argc)
		return 0;
	*a->value = argv[i + 1];
	return 2;
}

bool
args_take(int argc, char **argv, const struct arg *args, size_t args_n, size_t *ret_n)
{
	size_t n = 0;
	bool is_over = false;

	for (int i = 1; i < argc;) {
		if (is_over || argv[i][0] != '-' || argv[i][1] == '\0') {
			argv[1 + n++] = argv[i++];
			continue;
		}
		if (strcmp(argv[i], "--") == 0) {
			is_over = true;
			i++;
			continue;
		}
		int used = take(argc, argv, i, args, args_n);
		if (used == 0)
			return args_wrong(
				argv[0],
				"unknown option, or no value for it:", argv[i]);
		i += used;
	}
	*ret_n = n;
	return true;
}
