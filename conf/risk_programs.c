#include "conf/risk_programs.h"

static const struct risk_wrap wraps[] = {
	{ "sudo", "ugpCTRDhrtU", 0 },
	{ "doas", "uC", 0 },
	{ "pkexec", "", 0 },
	{ "env", "uC", 0 },
	{ "nohup", "", 0 },
	{ "nice", "n", 0 },
	{ "ionice", "cnp", 0 },
	{ "chrt", "", 1 },
	{ "taskset", "", 1 },
	{ "timeout", "ks", 1 },
	{ "time", "fo", 0 },
	{ "xargs", "InPLdaEs", 0 },
	{ "parallel", "jIN", 0 },
	{ "stdbuf", "ioe", 0 },
	{ "unbuffer", "", 0 },
	{ "setsid", "", 0 },
	{ "exec", "a", 0 },
	{ "command", "", 0 },
	{ "builtin", "", 0 },
	{ "busybox", "", 0 },
	{ "toybox", "", 0 },
	{ "chroot", "", 1 },
	{ "unshare", "RSG", 0 },
	{ "nsenter", "tSG", 0 },
	{ "setpriv", "", 0 },
	{ "capsh", "", 0 },
	{ "flock", "wE", 1 },
	{ "strace", "oepsuEa", 0 },
	{ "ltrace", "oepsuE", 0 },
	{ "gdb", "ex", 0 },
	{ "faketime", "", 1 },
	{ "firejail", "", 0 },
	{ "proxychains", "f", 0 },
	{ "torsocks", "", 0 },
	{ "dbus-run-session", "", 0 },
	{ "systemd-run", "pu", 0 },
	{ "npx", "p", 0 },
	{ "xvfb-run", "", 0 },
};

/* Of wrappers and of nobody else here. */
static const char long_with_value[] =
	"--user|--group|--prompt|--host|--chdir|--chroot|--unset|--kill-after|--signal|"
	"--adjustment|--max-args|--max-procs|--delimiter|--arg-file|--max-lines|"
	"--max-chars|--output|--input|--error|--class|--classdata|--role|--type|--jobs|"
	"--package|--property|--unit|--replace|--root|--target";

static const struct risk_program programs[] = {
	{ "rm", TOUCH_DELETE, ORDER_NONE },      { "unlink", TOUCH_DELETE, ORDER_NONE },
	{ "rmdir", TOUCH_DELETE, ORDER_NONE },   { "shred", TOUCH_DELETE, ORDER_NONE },
	{ "wipe", TOUCH_DELETE, ORDER_NONE },    { "srm", TOUCH_DELETE, ORDER_NONE },
	{ "tee", TOUCH_WRITE, ORDER_NONE },      { "touch", TOUCH_WRITE, ORDER_NONE },
	{ "truncate", TOUCH_WRITE, ORDER_NONE }, { "mkdir", TOUCH_WRITE, ORDER_NONE },
	{ "mkfifo", TOUCH_WRITE, ORDER_NONE },   { "mknod", TOUCH_WRITE, ORDER_NONE },
	{ "chmod", TOUCH_WRITE, ORDER_NONE },    { "chown", TOUCH_WRITE, ORDER_NONE },
	{ "chgrp", TOUCH_WRITE, ORDER_NONE },    { "chattr", TOUCH_WRITE, ORDER_NONE },
	{ "setfacl", TOUCH_WRITE, ORDER_NONE },  { "setcap", TOUCH_WRITE, ORDER_NONE },
	{ "vi", TOUCH_WRITE, ORDER_NONE },       { "vim", TOUCH_WRITE, ORDER_NONE },
	{ "nano", TOUCH_WRITE, ORDER_NONE },     { "ed", TOUCH_WRITE, ORDER_NONE },
	{ "patch", TOUCH_WRITE, ORDER_NONE },    { "mount", TOUCH_WRITE, ORDER_NONE },
	{ "dd", TOUCH_READ, ORDER_OF },          { "cp", TOUCH_READ, ORDER_LAST },
	{ "install", TOUCH_READ, ORDER_LAST },   { "ln", TOUCH_READ, ORDER_LAST },
	{ "link", TOUCH_READ, ORDER_LAST },      { "rsync", TOUCH_READ, ORDER_LAST },
	{ "scp", TOUCH_READ, ORDER_LAST },       { "mv", TOUCH_DELETE, ORDER_MOVES },
	{ "rename", TOUCH_DELETE, ORDER_NONE },  { "echo", TOUCH_NAME, ORDER_NONE },
	{ "printf", TOUCH_NAME, ORDER_NONE },    { "test", TOUCH_NAME, ORDER_NONE },
	{ "[", TOUCH_NAME, ORDER_NONE },         { "[[", TOUCH_NAME, ORDER_NONE },
	{ "ls", TOUCH_NAME, ORDER_NONE },        { "stat", TOUCH_NAME, ORDER_NONE },
	{ "file", TOUCH_NAME, ORDER_NONE },      { "du", TOUCH_NAME, ORDER_NONE },
	{ "df", TOUCH_NAME, ORDER_NONE },        { "cd", TOUCH_NAME, ORDER_NONE },
	{ "pushd", TOUCH_NAME, ORDER_NONE },     { "which", TOUCH_NAME, ORDER_NONE },
	{ "type", TOUCH_NAME, ORDER_NONE },      { "basename", TOUCH_NAME, ORDER_NONE },
	{ "dirname", TOUCH_NAME, ORDER_NONE },   { "realpath", TOUCH_NAME, ORDER_NONE },
	{ "readlink", TOUCH_NAME, ORDER_NONE },
};

static const struct risk_language languages[] = {
	{ "python", "python", "c", "" },
	{ "pypy", "python", "c", "" },
	{ "ipython", "python", "c", "" },
	{ "perl", "perl", "eE", "" },
	{ "ruby", "ruby", "e", "" },
	{ "irb", "ruby", "e", "" },
	{ "node", "js", "ep", "--eval|--print" },
	{ "nodejs", "js", "ep", "--eval|--print" },
	{ "deno", "js", "", "eval" },
	{ "bun", "js", "ep", "--eval|--print" },
	{ "php", "php", "r", "--run" },
	{ "lua", "lua", "e", "" },
	{ "luajit", "lua", "e", "" },
	{ "rscript", "r", "e", "" },
	{ "r", "r", "e", "" },
	{ "julia", "julia", "eE", "--eval|--print" },
	{ "osascript", "applescript", "e", "" },
	{ "tclsh", "tcl", "", "" },
	{ "pwsh", "powershell", "c", "-command|-encodedcommand" },
};

static const struct {
	const char *names, *verbs;
} managers[] = {
	{ "pip|pipx|uv|conda|mamba|micromamba|easy_install|poetry|pdm", "install|add|"
									"inject|run" },
	{ "npm|pnpm|yarn|bun|deno|bower|corepack", "install|i|add|ci|exec|dlx|create|"
						   "x" },
	{ "apt|apt-get|aptitude|dnf|yum|zypper|microdnf|brew|snap|flatpak|opkg|rpm|"
	  "dpkg|apk|emerge|port|nix-env",
	  "install|add|localinstall|reinstall|-i|--install|-U|-iA" },
	{ "cargo|gem|go|composer|luarocks|cpan|cpanm|opam|cabal|stack|mix|nuget|dotnet|"
	  "bundle|raco",
	  "install|add|require|get|tool" },
	{ "pacman", "-S|-Sy|-Syu|-U" },
};

bool
risk_is_among(struct str name, const char *words)
{
	struct str rest = str_from(words);

	while (rest.p != NULL)
		if (str_eq(str_cut(&rest, '|'), name))
			return name.n > 0;
	return false;
}

const struct risk_wrap *
risk_wrap_of(struct str name)
{
	for (size_t i = 0; i < COUNT_OF(wraps); i++)
		if (str_eq(name, str_from(wraps[i].name)))
			return &wraps[i];
	return NULL;
}

bool
risk_wrap_has_value(const struct risk_wrap *w, struct str option)
{
	if (str_starts(option, STR("--")))
		return risk_is_among(option, long_with_value);
	return option.n >= 2 &&
	       str_has(str_from(w->with_value), option.p[option.n - 1]);
}

const struct risk_program *
risk_program_of(struct str name)
{
	for (size_t i = 0; i < COUNT_OF(programs); i++)
		if (str_eq(name, str_from(programs[i].name)))
			return &programs[i];
	return NULL;
}

const struct risk_language *
risk_language_of(struct str name)
{
	struct str plain = risk_without_version(name);

	for (size_t i = 0; i < COUNT_OF(languages); i++)
		if (str_ieq(plain, str_from(languages[i].name)))
			return &languages[i];
	return NULL;
}

bool
risk_is_shell(struct str name)
{
	return risk_is_among(name, "sh|bash|zsh|dash|ksh|mksh|ash|fish|rbash|csh|tcsh|"
				   "shell|rsh");
}

bool
risk_is_network(struct str name)
{
	return risk_is_among(name, "curl|wget|wget2|nc|ncat|netcat|telnet|ssh|scp|sftp|"
				   "rsync|ftp|lftp|ping|dig|nslookup|host|socat|http|"
				   "https|xh|aria2c|axel|nmap|traceroute|openssl|mosh|"
				   "whois|tftp|rclone|kcat|mosquitto_pub|websocat");
}

const char *
risk_manager_verbs(struct str name)
{
	for (size_t i = 0; i < COUNT_OF(managers); i++)
		if (risk_is_among(risk_without_version(name), managers[i].names))
			return managers[i].verbs;
	return NULL;
}

struct str
risk_base(struct str path)
{
	size_t n = path.n;

	while (n > 0 && path.p[n - 1] != '/')
		n--;
	return str_skip(path, n);
}

struct str
risk_without_version(struct str s)
{
	struct str all = s;

	while (s.n > 0 && (ascii_is_digit(s.p[s.n - 1]) || s.p[s.n - 1] == '.' ||
			   s.p[s.n - 1] == '-'))
		s.n--;
	return s.n == 0 ? all : s;
}
