// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe is the asking side of the test tool: it asks whether one
// address answers, over ICMP, TCP, UDP or HTTP, and measures series of echo
// requests.
package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/alioth-net/alioth/test/testtool/report"
)

// Interval between two attempts at one target.
const Interval = 100 * time.Millisecond

// AttemptTimeout bounds one attempt, so that a lost first packet does not use
// up the whole time of a probe.
const AttemptTimeout = time.Second

// Ask tries the target until it answers or ctx ends, and reports the answer or
// the last attempt's error. Targets are written icmp://ADDR, tcp://ADDR:PORT,
// udp://ADDR:PORT and http://ADDR:PORT/PATH, IPv6 addresses in brackets.
// connect://ADDR:PORT is satisfied by a TCP connection, whatever is said on it.
func Ask(ctx context.Context, target string) report.Probe {
	return outcome(ctx, target, untilAnswered)
}

// AskOnce is Ask with a single attempt, until ctx ends.
func AskOnce(ctx context.Context, target string) report.Probe {
	return outcome(ctx, target, func(ctx context.Context, ask askFunc) (string, error) { return ask(ctx) })
}

func outcome(ctx context.Context, target string, try func(context.Context, askFunc) (string, error)) report.Probe {
	start := time.Now()
	result := report.Probe{Target: target}
	ask, err := asker(target)
	if err == nil {
		var answer string
		if answer, err = try(ctx, ask); err == nil {
			result.OK = true
			result.Name, result.Peer, result.PeerPort = split(answer)
		}
	}
	if err != nil {
		result.Error = err.Error()
	}
	result.Took = time.Since(start)
	return result
}

// untilAnswered asks until there is an answer or ctx ends. An attempt that the end of ctx cut short
// does not say anything about the target, so it returns the error of the one before.
func untilAnswered(ctx context.Context, ask askFunc) (string, error) {
	var last error
	for {
		answer, err := attempt(ctx, ask)
		if err == nil {
			return answer, nil
		}
		if last == nil || !over(ctx) {
			last = err
		}
		if !pause(ctx) {
			return "", last
		}
	}
}

// over also looks at the clock: a dialer keeps the deadline by a timer of its own, which may fire
// before the timer of ctx.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

var errTarget = errors.New("target can't be read")

// askFunc asks once and returns the answer's text.
type askFunc func(ctx context.Context) (string, error)

func attempt(ctx context.Context, ask askFunc) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, AttemptTimeout)
	defer cancel()
	return ask(ctx)
}

func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(Interval):
		return ctx.Err() == nil
	}
}

// split reads the server's "<name> <peer> <text>".
func split(answer string) (name, peer string, port uint16) {
	fields := strings.Fields(answer)
	if len(fields) < 2 {
		return strings.TrimSpace(answer), "", 0
	}
	if whole, err := netip.ParseAddrPort(fields[1]); err == nil {
		return fields[0], whole.Addr().String(), whole.Port()
	}
	return fields[0], fields[1], 0
}

func asker(target string) (askFunc, error) {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%w: %q: want icmp://, tcp://, udp:// or http:// and an address", errTarget, target)
	}
	switch u.Scheme {
	case "connect":
		return func(ctx context.Context) (string, error) { return "", connect(ctx, u.Host) }, nil
	case "tcp":
		return func(ctx context.Context) (string, error) { return askTCP(ctx, u.Host) }, nil
	case "udp":
		return func(ctx context.Context) (string, error) { return askUDP(ctx, u.Host) }, nil
	case "http":
		return func(ctx context.Context) (string, error) { return askHTTP(ctx, target) }, nil
	case "icmp":
		addr, err := netip.ParseAddr(u.Hostname())
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", errTarget, target, err)
		}
		return func(ctx context.Context) (string, error) { return "", askICMP(ctx, addr) }, nil
	}
	return nil, fmt.Errorf("%w: %q: unknown scheme %q", errTarget, target, u.Scheme)
}

func connect(ctx context.Context, address string) error {
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func askTCP(ctx context.Context, address string) (string, error) {
	return askLine(ctx, "tcp", address)
}

func askUDP(ctx context.Context, address string) (string, error) {
	return askLine(ctx, "udp", address)
}

// askLine sends one line and reads one line. The line is Text or, without one,
// "hello".
func askLine(ctx context.Context, network, address string) (string, error) {
	conn, err := dial(ctx, network, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := fmt.Fprintf(conn, "%s\n", text(ctx)); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read answer: %w", err)
	}
	return line, nil
}

func askHTTP(ctx context.Context, target string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: nil, DialContext: dial}}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("answer is %s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}

type textKey struct{}

// WithText sets the line that TCP and UDP targets are sent.
func WithText(ctx context.Context, line string) context.Context {
	return context.WithValue(ctx, textKey{}, line)
}

func text(ctx context.Context) string {
	if line, ok := ctx.Value(textKey{}).(string); ok && line != "" {
		return line
	}
	return "hello"
}
