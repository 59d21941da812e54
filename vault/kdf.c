#include "vault/kdf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "vault/secret.h"

enum { N = 1 << 17, R = 8, P = 1, MEMORY = 192 << 20 };

/* Nothing of what the keeper holds is in this process: its pages with keys are left out
 * of children (secret_shield()). */
NORETURN static void
child(int passphrase, size_t n, const uint8_t salt[KDF_SALT], int out)
{
	struct secret text = { 0 };
	struct seal_key key;

	if (secret_from_fd(passphrase, n, &text) != ST_OK ||
	    EVP_PBE_scrypt((const char *)secret_bytes(&text), secret_len(&text), salt,
			   KDF_SALT, N, R, P, MEMORY, key.b, sizeof key.b) != 1)
		_exit(1);
	_exit(write(out, key.b, sizeof key.b) == sizeof key.b ? 0 : 1);
}

/* All but these two, whose numbers are not known to be neighbours. */
static bool
keep_two(int a, int b)
{
	unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);

	return (low == 0 || close_range(0, low - 1, 0) == 0) &&
	       (high - low < 2 || close_range(low + 1, high - 1, 0) == 0) &&
	       close_range(high + 1, ~0U, 0) == 0;
}

enum status
kdf_start(int passphrase, size_t n, const uint8_t salt[KDF_SALT], struct kdf *ret_k)
{
	int ends[2];

	if (n == 0 || n > KDF_PASSPHRASE_MAX)
		return ST_BAD_SECRET;
	if (pipe2(ends, O_CLOEXEC) != 0)
		return ST_NO_FILES;
	pid_t pid = fork();
	if (pid == 0) {
		if (!keep_two(passphrase, ends[1]))
			_exit(1);
		child(passphrase, n, salt, ends[1]);
	}
	(void)close(ends[1]);
	if (pid < 0) {
		(void)close(ends[0]);
		return ST_SYSTEM;
	}
	*ret_k = (struct kdf){ pid, ends[0] };
	return ST_OK;
}

enum status
kdf_finish(struct kdf *k, struct seal_key *ret_key)
{
	CLEANUP(seal_key_done) struct seal_key key = { 0 };
	ssize_t n = read(k->fd, key.b, sizeof key.b);
	int how = 0;

	(void)close(k->fd);
	while (waitpid(k->pid, &how, 0) < 0 && errno == EINTR)
		continue;
	*k = (struct kdf){ 0 };
	if (n != sizeof key.b)
		return ST_NOMEM;
	*ret_key = key;
	return ST_OK;
}
