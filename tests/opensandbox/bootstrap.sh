#!/bin/sh
# What the execd image starts a sandbox with: execd beside the sandbox's own command, and
# a certificate of an intercepting gateway put where the usual programs look for it.
dir=/opt/opensandbox
ca=$dir/mitmproxy-ca-cert.pem
if [ "${OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT:-}" = true ] || [ -s "$ca" ]; then
	waited=0
	while [ ! -s "$ca" ] && [ "$waited" -lt 300 ]; do
		sleep 1
		waited=$((waited + 1))
	done
	cp "$ca" /usr/local/share/ca-certificates/opensandbox.crt 2>/dev/null && update-ca-certificates >/dev/null 2>&1
	cat /etc/ssl/certs/ca-certificates.crt "$ca" >"$dir/merged-ca-certificates.pem" 2>/dev/null
	export NODE_EXTRA_CA_CERTS="$ca"
	export REQUESTS_CA_BUNDLE="$dir/merged-ca-certificates.pem" SSL_CERT_FILE="$dir/merged-ca-certificates.pem"
fi
"$dir/execd" &
exec "$@"
