#include "proxy/http/multipart.h"

#include <string.h>

#include "proxy/http/head.h"

enum state {
	OPEN, /* the first delimiter has to come */
	AFTER_MARK,
	PADDING, /* blanks behind a delimiter */
	DASH,    /* one of the two behind the last */
	LAST,    /* both; blanks and CRLF may follow */
	HEAD,
	CONTENT,
	OVER,
	BAD,
};

static enum multipart_event
fail(struct multipart *m)
{
	m->state = BAD;
	return MULTIPART_BAD;
}

bool
multipart_is_over(const struct multipart *m)
{
	return m->state == OVER || (m->state == LAST && !m->is_return);
}

/* One of the parameters behind a value: name in any case, value without its quotes. */
struct param {
	struct str name, value;
	bool is_escaped; /* there is a backslash in value */
};

/* The length of what stands between quotes, those counted; 0: it does not end. */
static size_t
quoted_length(struct str s, bool *ret_is_escaped)
{
	for (size_t i = 1; i < s.n; i++) {
		if (s.p[i] == '"')
			return i + 1;
		if (s.p[i] == '\\') {
			*ret_is_escaped = true;
			i++;
		}
	}
	return 0;
}

static bool
take_value(struct str *rest, struct param *p)
{
	size_t n = 0;

	p->is_escaped = false;
	if (str_starts(*rest, STR("\""))) {
		n = quoted_length(*rest, &p->is_escaped);
		if (n == 0)
			return false;
		p->value = str_of(rest->p + 1, n - 2);
	} else {
		while (n < rest->n && is_http_token(str_of(rest->p + n, 1)))
			n++;
		p->value = str_head(*rest, n);
	}
	*rest = str_trim(str_skip(*rest, n));
	return true;
}

/* ST_END: no more of them. */
static enum status
next_param(struct str *rest, struct param *p)
{
	*rest = str_trim(*rest);
	if (rest->n == 0)
		return ST_END;
	if (rest->p[0] != ';')
		return ST_BAD_HEADER;
	*rest = str_trim(str_skip(*rest, 1));
	if (rest->n == 0)
		return ST_END;
	size_t n = 0;
	while (n < rest->n && is_http_token(str_of(rest->p + n, 1)))
		n++;
	p->name = str_head(*rest, n);
	*rest = str_skip(*rest, n);
	if (n == 0 || !str_starts(*rest, STR("=")))
		return ST_BAD_HEADER;
	*rest = str_skip(*rest, 1);
	return take_value(rest, p) ? ST_OK : ST_BAD_HEADER;
}

/* Is it `name`, or one of the forms of RFC 2231 that some read as it? */
static bool
is_form_of(struct str param, struct str name)
{
	return str_ieq(str_head(param, name.n), name) &&
	       (param.n == name.n || param.p[name.n] == '*');
}

static bool
is_boundary(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) &&
		    !str_has(STR("'()+_,-./:=? "), s.p[i]))
			return false;
	}
	return s.n > 0 && s.n <= MULTIPART_BOUNDARY && s.p[s.n - 1] != ' ';
}

static enum status
find_boundary(struct str rest, struct str *ret_boundary)
{
	struct param p;
	struct str boundary = { NULL, 0 };
	enum status st;

	while ((st = next_param(&rest, &p)) == ST_OK) {
		if (!is_form_of(p.name, STR("boundary")))
			continue;
		if (boundary.p != NULL || p.name.n != STR("boundary").n ||
		    !is_boundary(p.value))
			return ST_BAD_HEADER;
		boundary = p.value;
	}
	if (st != ST_END || boundary.p == NULL)
		return ST_BAD_HEADER;
	*ret_boundary = boundary;
	return ST_OK;
}

enum status
multipart_init(struct multipart *m, struct str content_type)
{
	struct str type = STR("multipart/form-data"), boundary;
	struct str s = str_trim(content_type);

	if (!str_ieq(str_head(s, type.n), type))
		return ST_BAD_HEADER;
	enum status st = find_boundary(str_skip(s, type.n), &boundary);
	if (st != ST_OK)
		return st;
	*m = (struct multipart){ .state = OPEN, .matched = 2, .before = 2 };
	memcpy(m->mark, "\r\n--", 4);
	memcpy(m->mark + 4, boundary.p, boundary.n);
	m->mark_n = (uint8_t)(4 + boundary.n);
	return ST_OK;
}

/* CR occurs in the mark only at its beginning: what was matched is content, all of it. */
static enum multipart_event
step_content(struct multipart *m, struct str *in, struct str *ret_data)
{
	if (m->matched == 0 && in->p[0] != '\r') {
		const char *end = memchr(in->p, '\r', in->n);
		size_t n = end == NULL ? in->n : (size_t)(end - in->p);
		*ret_data = str_head(*in, n);
		*in = str_skip(*in, n);
		return MULTIPART_DATA;
	}
	if (in->p[0] != m->mark[m->matched]) {
		*ret_data = str_of(m->mark + m->before, (size_t)m->matched - m->before);
		m->matched = m->before = 0;
		if (m->state == OPEN)
			return fail(m);
		return ret_data->n > 0 ? MULTIPART_DATA : MULTIPART_AGAIN;
	}
	*in = str_skip(*in, 1);
	m->matched++;
	if (m->matched < m->mark_n)
		return MULTIPART_AGAIN;
	m->matched = m->before = 0;
	bool is_first = m->state == OPEN;
	m->state = AFTER_MARK;
	return is_first ? MULTIPART_AGAIN : MULTIPART_PART_END;
}

static void
begin_head(struct multipart *m)
{
	m->state = HEAD;
	m->has_name = m->has_filename = false;
	m->line_n = m->head_n = 0;
	held_clear(&m->name);
}

/* Behind a delimiter. */
static enum multipart_event
step_mark(struct multipart *m, struct str *in)
{
	char c = in->p[0];
	bool is_blank = c == ' ' || c == '\t';

	*in = str_skip(*in, 1);
	if (m->is_return) {
		m->is_return = false;
		if (c != '\n')
			return fail(m);
		if (m->state == LAST)
			m->state = OVER;
		else
			begin_head(m);
	} else if (c == '\r' && m->state != DASH) {
		m->is_return = true;
	} else if (c == '-' && m->state == AFTER_MARK) {
		m->state = DASH;
	} else if (c == '-' && m->state == DASH) {
		m->state = LAST;
	} else if (is_blank && m->state != DASH) {
		m->state = m->state == LAST ? LAST : PADDING;
	} else {
		return fail(m);
	}
	return MULTIPART_AGAIN;
}

static bool
take_disposition(struct multipart *m, struct str value)
{
	struct str type = STR("form-data");
	struct param p;
	enum status st;
	bool has_filename = false;

	if (m->has_name || !str_ieq(str_head(value, type.n), type))
		return false;
	value = str_skip(value, type.n);
	while ((st = next_param(&value, &p)) == ST_OK) {
		if (is_form_of(p.name, STR("name"))) {
			if (m->has_name || p.is_escaped || p.name.n != 4)
				return false;
			m->has_name = true;
			held_put(&m->name, p.value);
		} else if (str_ieq(p.name, STR("filename"))) {
			if (has_filename)
				return false;
			has_filename = true;
			m->has_filename = p.value.n > 0;
		}
	}
	return st == ST_END && m->has_name;
}

static bool
take_field(struct multipart *m, struct str line)
{
	struct str value = line, name = str_cut(&value, ':');

	if (value.p == NULL || !is_http_token(name))
		return false;
	value = str_trim(value);
	if (str_ieq(name, STR("content-disposition")))
		return take_disposition(m, value);
	if (str_ieq(name, STR("content-transfer-encoding")))
		return str_ieq(value, STR("binary")) || str_ieq(value, STR("8bit")) ||
		       str_ieq(value, STR("7bit"));
	return true;
}

static enum multipart_event
end_line(struct multipart *m)
{
	struct str line = str_of(m->line, m->line_n);

	m->line_n = 0;
	if (line.n > 0)
		return take_field(m, line) ? MULTIPART_AGAIN : fail(m);
	if (!m->has_name)
		return fail(m);
	m->state = CONTENT;
	/* The CRLF of the head may be that of a delimiter: the part is empty then. */
	m->matched = m->before = 2;
	return MULTIPART_PART;
}

static enum multipart_event
step_head(struct multipart *m, struct str *in)
{
	char c = in->p[0];

	*in = str_skip(*in, 1);
	if (++m->head_n > MULTIPART_HEAD)
		return fail(m);
	if (m->is_return) {
		m->is_return = false;
		return c == '\n' ? end_line(m) : fail(m);
	}
	if (c == '\r') {
		m->is_return = true;
		return MULTIPART_AGAIN;
	}
	if (m->line_n == sizeof m->line || ((uint8_t)c < 0x20 && c != '\t'))
		return fail(m);
	m->line[m->line_n++] = c;
	return MULTIPART_AGAIN;
}

static enum multipart_event
step(struct multipart *m, struct str *in, struct str *ret_data)
{
	switch ((enum state)m->state) {
	case OPEN:
	case CONTENT:
		return step_content(m, in, ret_data);
	case AFTER_MARK:
	case PADDING:
	case DASH:
	case LAST:
		return step_mark(m, in);
	case HEAD:
		return step_head(m, in);
	case OVER:
		return MULTIPART_OVER;
	case BAD:
		break;
	}
	return MULTIPART_BAD;
}

enum multipart_event
multipart_next(struct multipart *m, struct str *in, struct str *ret_data)
{
	enum multipart_event e = MULTIPART_AGAIN;

	while (e == MULTIPART_AGAIN && in->n > 0)
		e = step(m, in, ret_data);
	return e;
}
