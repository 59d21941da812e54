/* Methods that a request asks for beside its own: some frameworks take them instead. */
#include "conf/policy_rule.h"
#include "proxy/http/head.h"

static const char *const fields[] = { "x-http-method-override", "x-http-method",
				      "x-method-override" };

static bool
is_override(struct str name)
{
	for (size_t i = 0; i < COUNT_OF(fields); i++)
		if (head_same_name(name, str_from(fields[i])))
			return true;
	return false;
}

bool
policy_next_method(struct policy_methods *m, struct str *ret_method)
{
	struct str key, value;

	while (m->head != NULL && m->at < m->head->fields_len) {
		const struct field *f = &m->head->fields[m->at++];
		if (!is_override(f->name))
			continue;
		*ret_method = f->value;
		return true;
	}
	while (policy_next_key(&m->query, &key, &value)) {
		if (!policy_may_be_key(STR("_method"), key))
			continue;
		*ret_method = value;
		return true;
	}
	return false;
}
