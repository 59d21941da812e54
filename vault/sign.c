#include "vault/sign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

enum { SEED = 32 };

static const char file_name[] = "keeper.key";
static const char new_name[] = "keeper.key.new";

struct signer {
	EVP_PKEY *key;
	uint8_t public[CHAIN_KEY];
};

static enum status
read_seed(int fd, uint8_t seed[SEED])
{
	struct stat info = { 0 };

	if (fstat(fd, &info) != 0)
		return ST_SYSTEM;
	if (!S_ISREG(info.st_mode) || (info.st_mode & 077) != 0 ||
	    info.st_uid != geteuid() || info.st_size != SEED)
		return ST_CONFLICT;
	return pread(fd, seed, SEED, 0) == SEED ? ST_OK : ST_SYSTEM;
}

/* Whole on the disk before it has its name: a crash leaves no half key behind. */
static enum status
write_seed(int state, int fd, const uint8_t seed[SEED])
{
	if (write(fd, seed, SEED) != SEED || fsync(fd) != 0)
		return ST_SYSTEM;
	if (renameat2(state, new_name, state, file_name, RENAME_NOREPLACE) != 0)
		return errno == EEXIST ? ST_CONFLICT : ST_SYSTEM;
	return fsync(state) == 0 ? ST_OK : ST_SYSTEM;
}

static enum status
make_seed(int state, uint8_t seed[SEED])
{
	if (getrandom(seed, SEED, 0) != SEED)
		return ST_SYSTEM;
	/* What an earlier start left half done. */
	if (unlinkat(state, new_name, 0) != 0 && errno != ENOENT)
		return ST_SYSTEM;
	int fd = openat(state, new_name,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return ST_SYSTEM;
	enum status st = write_seed(state, fd, seed);
	(void)close(fd);
	return st;
}

static enum status
load_seed(int state, uint8_t seed[SEED])
{
	int fd = openat(state, file_name,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return make_seed(state, seed);
	if (fd < 0)
		return errno == ELOOP ? ST_CONFLICT : ST_SYSTEM;
	enum status st = read_seed(fd, seed);
	(void)close(fd);
	return st;
}

static bool
take_key(struct signer *s, const uint8_t seed[SEED])
{
	size_t n = sizeof s->public;

	s->key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, SEED);
	return s->key != NULL &&
	       EVP_PKEY_get_raw_public_key(s->key, s->public, &n) == 1 &&
	       n == sizeof s->public;
}

enum status
signer_open(int state, struct signer **ret_s)
{
	uint8_t seed[SEED] = { 0 };
	struct signer *s = calloc(1, sizeof *s);
	enum status st = s == NULL ? ST_NOMEM : load_seed(state, seed);

	if (st == ST_OK && !take_key(s, seed))
		st = ST_NOMEM;
	OPENSSL_cleanse(seed, sizeof seed);
	if (st != ST_OK) {
		signer_free(s);
		return st;
	}
	*ret_s = s;
	return ST_OK;
}

void
signer_free(struct signer *s)
{
	if (s == NULL)
		return;
	EVP_PKEY_free(s->key); /* wipes the private half */
	free(s);
}

static bool
sign(struct signer *s, struct str text, uint8_t sig[CHAIN_SIG])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t n = CHAIN_SIG;
	bool ok = ctx != NULL &&
		  EVP_DigestSignInit(ctx, NULL, NULL, NULL, s->key) == 1 &&
		  EVP_DigestSign(ctx, sig, &n, (const unsigned char *)text.p, text.n) ==
			  1 &&
		  n == CHAIN_SIG;

	EVP_MD_CTX_free(ctx);
	return ok;
}

enum status
signer_put(struct signer *s, uint64_t segment, const struct chain_hash *head,
	   struct buf *b)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	uint8_t sig[CHAIN_SIG];
	struct str view;

	buf_init(&text, 256);
	chain_put_statement(&text, segment, head);
	enum status st = buf_finish(&text, &view);
	if (st != ST_OK)
		return st;
	if (!sign(s, view, sig))
		return ST_NOMEM;
	buf_put(b, str_of(sig, sizeof sig));
	buf_put(b, str_of(s->public, sizeof s->public));
	return b->st;
}
