// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/alioth-net/alioth/test/testtool/report"
)

// exchangeLimit is how long one connection may take from the first packet to the answer. It lies
// above the first retries of TCP: a connection that these mend is not lost.
const exchangeLimit = 10 * time.Second

// keptLosses is how many losses are reported one by one.
const keptLosses = 100

// Connections opens perSecond new TCP connections per second to an echo server until ctx ends, each
// for one request and its answer, whether or not earlier ones have ended. begun, unless nil, is
// called once, when the first answer is back.
func Connections(ctx context.Context, target string, perSecond int, begun func()) report.Connections {
	c := &connections{begun: sync.OnceFunc(func() {
		if begun != nil {
			begun()
		}
	})}
	c.result.Target, c.result.Servers = target, map[string]int{}
	var open sync.WaitGroup
	start := time.Now()
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	for ctx.Err() == nil {
		// After a pause of the machine all due connections are opened at once.
		due := int(time.Since(start).Seconds()*float64(perSecond)) + 1
		for ; c.result.Opened < due; c.result.Opened++ {
			open.Go(func() { c.one(target, time.Since(start)) })
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	open.Wait()
	c.result.Duration, c.result.Took = time.Since(start), report.QuantilesOf(c.took)
	return c.result
}

// connections collects how they went.
type connections struct {
	begun func()

	mu     sync.Mutex
	result report.Connections
	took   []time.Duration
}

// one makes a connection, which outlives the end of the load.
func (c *connections) one(target string, after time.Duration) {
	start := time.Now()
	name, err := askOnce(target)
	took := time.Since(start)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.result.Answered++
		c.result.Servers[name]++
		c.took = append(c.took, took)
		c.begun()
		return
	}
	c.result.Lost++
	if len(c.result.Losses) < keptLosses {
		c.result.Losses = append(c.result.Losses, report.Loss{After: after, Took: took, Cause: err.Error()})
	}
}

// askOnce returns the name of the server that has answered.
func askOnce(target string) (name string, err error) {
	dialer := net.Dialer{Timeout: exchangeLimit}
	conn, err := dialer.Dial("tcp", target)
	if err != nil {
		return "", cause("connect", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(exchangeLimit)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return "", cause("send", err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "", cause(fmt.Sprintf("read from %s", conn.LocalAddr()), err)
	}
	name, _, _ = strings.Cut(line, " ")
	return name, nil
}

// cause returns the error of a lost connection, with the step that failed.
func cause(step string, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%s: nothing for %s", step, exchangeLimit)
	}
	return fmt.Errorf("%s: %w", step, err)
}
