#include "proxy/control/brain_request.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/base/enc.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/brain_label.h"

/* Of these no other spelling may stand there. */
static const char *const fields[] = {
#define CREATE_FIELD(name) name,
#include "proxy/http/create_field.def"
#undef CREATE_FIELD
};

/* Equal but for case, '_' and '-'. */
static bool
folds_to(const char *a, const char *b)
{
	for (;; a++, b++) {
		while (*a == '_' || *a == '-')
			a++;
		while (*b == '_' || *b == '-')
			b++;
		if (ascii_lower(*a) != ascii_lower(*b))
			return false;
		if (*a == '\0')
			return true;
	}
}

bool
request_has_twin(const json_t *object, const char *name)
{
	/* The iterator of Jansson wants what isn't const and changes nothing. */
	json_t *o = (json_t *)(uintptr_t)object;

	for (void *it = json_object_iter(o); it != NULL;
	     it = json_object_iter_next(o, it)) {
		const char *key = json_object_iter_key(it);

		if (folds_to(key, name) && strcmp(key, name) != 0)
			return true;
	}
	return false;
}

static enum status
check_names(const struct request *r, struct buf *why)
{
	for (size_t i = 0; i < COUNT_OF(fields); i++) {
		if (!request_has_twin(r->body, fields[i]))
			continue;
		buf_putf(why, "write %s in this one way only", fields[i]);
		return ST_BAD_PARAMETER;
	}
	return ST_OK;
}

/* Out of the body, as a reference of the caller's own; NULL: not there, or null. */
static json_t *
take(json_t *body, const char *name)
{
	json_t *v = json_incref(json_object_get(body, name));

	(void)json_object_del(body, name);
	if (json_is_null(v)) {
		json_decref(v);
		v = NULL;
	}
	return v;
}

static bool
is_text(const json_t *v, size_t max)
{
	size_t n = json_string_length(v);

	return json_is_string(v) && n > 0 && n <= max;
}

/* What it is made of: one of four. */
static enum status
read_source(struct request *r, struct buf *why)
{
	const json_t *image = json_object_get(r->body, "image");
	const json_t *of[] = {
		[REQUEST_IMAGE] = json_object_get(image, "uri"),
		[REQUEST_SNAPSHOT] = json_object_get(r->body, "snapshotId"),
		[REQUEST_POOL] = json_object_get(json_object_get(r->body, "extensions"),
						 "poolRef"),
		[REQUEST_TEMPLATE] = json_object_get(r->body, "templateId"),
	};
	unsigned found = 0;

	if (image != NULL && !json_is_null(image) && !is_text(of[REQUEST_IMAGE], 512))
		return brain_bad(why, "image.uri is missing, or no text");
	if (request_has_twin(image, "uri") ||
	    request_has_twin(json_object_get(r->body, "extensions"), "poolRef"))
		return brain_bad(why, "write uri and poolRef in this one way only");
	for (size_t i = 0; i < COUNT_OF(of); i++) {
		if (of[i] == NULL || json_is_null(of[i]))
			continue;
		if (!is_text(of[i], 512))
			return brain_bad(
				why,
				"snapshotId, poolRef or templateId is no short text");
		r->source = (enum request_source)i;
		r->name = brain_string(of[i]);
		found++;
	}
	if (found != 1)
		return brain_bad(why,
				 "exactly one of image, snapshotId, templateId and "
				 "extensions.poolRef is wanted");
	return ST_OK;
}

static enum status
check_image(const struct image *im, const struct request *r, struct buf *why)
{
	if (r->source != REQUEST_IMAGE || exec_image_allowed(im, r->name))
		return ST_OK;
	buf_putf(why, "the image %.*s is not allowed here",
		 STR_ARG(str_head(r->name, 200)));
	return ST_EXEC_REFUSED;
}

static enum status
read_timeout(const struct image *im, struct request *r, struct buf *why)
{
	const json_t *v = json_object_get(r->body, "timeout");
	uint64_t max = image_number(im, OPT_EXEC_MAX_TIMEOUT) / 1000;
	uint64_t usual = image_number(im, OPT_EXEC_TIMEOUT) / 1000;
	json_int_t n = json_integer_value(v);

	if (v == NULL)
		r->timeout_s = usual < max ? usual : max;
	else if (json_is_null(v))
		r->timeout_s = max;
	else if (!json_is_integer(v) || n < REQUEST_TIMEOUT_MIN_S)
		return brain_bad(why,
				 "timeout is no whole number of at least 60 seconds");
	else if ((uint64_t)n > max) {
		buf_putf(why, "timeout is over %llu seconds", (unsigned long long)max);
		return ST_BAD_PARAMETER;
	} else
		r->timeout_s = (uint64_t)n;
	if (json_object_set_new(r->body, "timeout",
				json_integer((json_int_t)r->timeout_s)) != 0)
		return ST_NOMEM;
	return ST_OK;
}

static enum status
read_metadata(struct request *r, struct buf *why)
{
	r->metadata = take(r->body, "metadata");
	if (r->metadata == NULL)
		r->metadata = json_object();
	return label_check(r->metadata, false, why);
}

/* Ours are taken out; all must be texts. */
static enum status
read_extensions(const struct image *im, struct request *r, struct buf *why)
{
	json_t *all = json_object_get(r->body, "extensions"), *v;
	const char *key;
	void *next;

	r->extras = json_object();
	if (all == NULL || json_is_null(all))
		return ST_OK;
	if (!json_is_object(all) || json_object_size(all) > LABELS_MAX)
		return brain_bad(why, "extensions is no object of texts");
	json_object_foreach_safe(all, next, key, v)
	{
		if (!json_is_string(v))
			return brain_bad(why, "extensions is no object of texts");
		if (str_starts(str_from(key), STR("bootstrap.")) &&
		    !image_flag(im, OPT_EXEC_MORE_RIGHTS)) {
			buf_put(why, STR("extensions: bootstrap.* is not allowed here "
					 "(exec.more_rights)"));
			return ST_EXEC_REFUSED;
		}
		if (!str_starts(str_from(key), STR("sandgate.")))
			continue;
		if (json_object_set(r->extras, key, v) != 0)
			return ST_NOMEM;
		(void)json_object_del(all, key);
	}
	r->reuse = brain_string(json_object_get(r->extras, "sandgate.reuse"));
	return ST_OK;
}

/* For others docker gives the container rights and devices. */
static enum status
check_platform(const struct image *im, const struct request *r, struct buf *why)
{
	const json_t *platform = json_object_get(r->body, "platform");

	if (platform == NULL || json_is_null(platform))
		return ST_OK;
	if (!json_is_object(platform) || request_has_twin(platform, "os"))
		return brain_bad(why, "platform is no object with one os");
	if (str_eq(brain_string(json_object_get(platform, "os")), STR("linux")) ||
	    image_flag(im, OPT_EXEC_MORE_RIGHTS))
		return ST_OK;
	buf_put(why, STR("platform.os: only linux is allowed here (exec.more_rights)"));
	return ST_EXEC_REFUSED;
}

static enum status
read_policy(struct request *r, struct buf *why)
{
	r->policy = take(r->body, "networkPolicy");
	r->proxy = take(r->body, "credentialProxy");
	if (r->proxy != NULL &&
	    (!json_is_object(r->proxy) ||
	     !json_is_boolean(json_object_get(r->proxy, "enabled"))))
		return brain_bad(why, "credentialProxy.enabled is no true or false");
	return ST_OK;
}

static enum status
read_all(const struct image *im, struct request *r, struct buf *why)
{
	enum status st = check_names(r, why);

	if (st == ST_OK)
		st = read_source(r, why);
	if (st == ST_OK)
		st = check_image(im, r, why);
	if (st == ST_OK)
		st = check_platform(im, r, why);
	if (st == ST_OK)
		st = read_timeout(im, r, why);
	if (st == ST_OK)
		st = read_metadata(r, why);
	if (st == ST_OK)
		st = read_extensions(im, r, why);
	if (st == ST_OK)
		st = read_policy(r, why);
	if (st == ST_OK)
		st = request_env(im, r, why);
	if (st == ST_OK)
		st = request_volumes(im, r, why);
	if (st == ST_OK)
		st = request_limits(r, why);
	return st == ST_OK ? request_commands(r, why) : st;
}

enum status
request_read(const struct image *im, struct str text, struct request *ret_r,
	     struct buf *why)
{
	struct request r = { .body = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES,
						NULL) };
	enum status st;

	if (!json_is_object(r.body)) {
		request_done(&r);
		return brain_bad(why, "the body is no JSON object");
	}
	st = read_all(im, &r, why);
	if (st == ST_OK)
		*ret_r = r;
	else
		request_done(&r);
	return st;
}

void
request_done(struct request *r)
{
	json_decref(r->body);
	json_decref(r->metadata);
	json_decref(r->policy);
	json_decref(r->proxy);
	json_decref(r->commands);
	json_decref(r->mounts);
	json_decref(r->stripped);
	json_decref(r->extras);
	*r = (struct request){ 0 };
}

static int
hash_part(const char *part, size_t n, void *ctx)
{
	return EVP_DigestUpdate(ctx, part, n) == 1 ? 0 : -1;
}

static bool
hash_value(EVP_MD_CTX *md, const json_t *v)
{
	const size_t flags = JSON_SORT_KEYS | JSON_COMPACT | JSON_ENCODE_ANY;

	return v == NULL ? EVP_DigestUpdate(md, "-", 1) == 1
			 : json_dump_callback(v, hash_part, md, flags) == 0;
}

static bool
hash_shape(EVP_MD_CTX *md, const struct request *r, const struct request_counts *counts)
{
	json_t *kind = json_copy(r->body);
	/* How long it lives is no part of what it is, and credentials for a registry
	 * open the same image. */
	bool is_done = kind != NULL && json_object_del(kind, "timeout") == 0;
	json_t *image = json_copy(json_object_get(kind, "image"));

	if (image != NULL) {
		(void)json_object_del(image, "auth");
		is_done = is_done && json_object_set_new(kind, "image", image) == 0;
	}
	is_done = is_done && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
		  hash_value(md, kind);
	if (counts->ca)
		is_done = is_done && EVP_DigestUpdate(md, "ca", 2) == 1;
	if (counts->policy)
		is_done = is_done && hash_value(md, r->policy) &&
			  hash_value(md, r->proxy);
	json_decref(kind);
	return is_done;
}

void
request_put_shape(struct buf *b, const struct request *r,
		  const struct request_counts *counts)
{
	unsigned char hash[32];
	unsigned n = sizeof hash;
	EVP_MD_CTX *md = EVP_MD_CTX_new();

	if (md != NULL && hash_shape(md, r, counts) &&
	    EVP_DigestFinal_ex(md, hash, &n) == 1)
		enc_put_hex(b, str_of(hash, sizeof hash));
	else if (b->st == ST_OK)
		b->st = ST_NOMEM;
	EVP_MD_CTX_free(md);
}
