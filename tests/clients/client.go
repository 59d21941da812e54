// Go's net/http as its users use it; proxies come by environment.
//
// usage: client SCHEME FEATURE...    a line for each: "FEATURE ok" or what was wrong
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

type client struct {
	http   *http.Client
	scheme string
}

type answer struct {
	code   int
	fields http.Header
	body   []byte
}

var mib = bytes.Repeat([]byte("0123456789abcdef"), 65536)

func (c *client) url(path string) string { return c.scheme + "://www.example.test" + path }

func (c *client) ask(method, url string, body io.Reader, expect string) (*answer, error) {
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		return nil, err
	}
	if expect != "" {
		r.Header.Set("Expect", expect)
	}
	got, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	return &answer{got.StatusCode, got.Header, data}, err
}

// says asks, and wants 200 with a body that begins and ends like this.
func (c *client) says(method, url string, body io.Reader, expect, begin, end string) error {
	a, err := c.ask(method, url, body, expect)
	if err != nil {
		return err
	}
	if a.code != 200 || !bytes.HasPrefix(a.body, []byte(begin)) || !bytes.HasSuffix(a.body, []byte(end)) {
		return fmt.Errorf("%d %.300q", a.code, a.body)
	}
	return nil
}

func (c *client) big() error {
	a, err := c.ask("GET", c.url("/big"), nil, "")
	if err == nil && (a.code != 200 || len(a.body) != 20<<20 || a.body[len(a.body)-1] != 255) {
		err = fmt.Errorf("%d, %d bytes", a.code, len(a.body))
	}
	return err
}

func (c *client) keepalive() error {
	peers := map[string]bool{}
	for i := 0; i < 20; i++ {
		a, err := c.ask("GET", c.url("/small"), nil, "")
		if err != nil {
			return err
		}
		peers[a.fields.Get("X-Peer")] = true
	}
	if len(peers) != 1 {
		return fmt.Errorf("connections: %v", peers)
	}
	return nil
}

func (c *client) head() error {
	a, err := c.ask("HEAD", c.url("/small"), nil, "")
	if err == nil && (a.code != 200 || a.fields.Get("Content-Length") != "32" || len(a.body) != 0) {
		err = fmt.Errorf("%d %v", a.code, a.fields)
	}
	return err
}

func (c *client) redirectDenied() error {
	a, err := c.ask("GET", c.url("/redirect-denied"), nil, "")
	if err != nil {
		if strings.Contains(err.Error(), "evil.example.test") {
			return nil
		}
		return err
	}
	if a.code != 403 || !bytes.Contains(a.body, []byte("denied_by_policy")) {
		return fmt.Errorf("%d %.300q", a.code, a.body)
	}
	return nil
}

func (c *client) sse() error {
	stream := fmt.Sprintf("go-%d", time.Now().UnixNano())
	got, err := c.http.Get(c.url("/sse?id=" + stream))
	if err != nil {
		return err
	}
	defer got.Body.Close()
	n := 0
	for lines := bufio.NewScanner(got.Body); lines.Scan(); {
		if lines.Text() == "" {
			continue
		}
		if lines.Text() != fmt.Sprintf("data: event %d", n) {
			return fmt.Errorf("event %d is %q", n, lines.Text())
		}
		if _, err := c.ask("GET", c.url(fmt.Sprintf("/ack?id=%s&n=%d", stream, n)), nil, ""); err != nil {
			return err
		}
		n++
	}
	if n != 5 {
		return fmt.Errorf("%d events", n)
	}
	return nil
}

func (c *client) run(feature string) error {
	small := func(host string) string { return "small thing of " + host + ".example.test\n" }
	switch feature {
	case "get":
		return c.says("GET", c.url("/small"), nil, "", small("www"), "")
	case "ipv6":
		return c.says("GET", c.scheme+"://six.example.test/small", nil, "", small("six"), "")
	case "redirect":
		return c.says("GET", c.url("/redirect"), nil, "", small("other"), "")
	case "post":
		return c.says("POST", c.url("/post"), bytes.NewReader(mib), "", "1048576 ", " length\n")
	case "expect":
		return c.says("POST", c.url("/post"), bytes.NewReader(mib), "100-continue", "1048576 ", " length\n")
	case "chunked":
		return c.says("POST", c.url("/post"), io.MultiReader(bytes.NewReader(mib)), "", "1048576 ", " chunked\n")
	case "big":
		return c.big()
	case "keepalive":
		return c.keepalive()
	case "head":
		return c.head()
	case "redirect-denied":
		return c.redirectDenied()
	case "sse":
		return c.sse()
	}
	return fmt.Errorf("no such feature")
}

// Older ones know socks5h by the name socks5 alone.
func renameSocks() {
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasSuffix(strings.ToLower(name), "_proxy") && strings.HasPrefix(value, "socks5h:") {
			os.Setenv(name, "socks5:"+strings.TrimPrefix(value, "socks5h:"))
		}
	}
}

func main() {
	renameSocks()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// A 100 that never comes is a failure, not a pause.
	transport.ExpectContinueTimeout = 30 * time.Second
	c := &client{&http.Client{Transport: transport, Timeout: 20 * time.Second}, os.Args[1]}
	for _, feature := range os.Args[2:] {
		if err := c.run(feature); err != nil {
			fmt.Println(feature, err)
		} else {
			fmt.Println(feature, "ok")
		}
	}
}
