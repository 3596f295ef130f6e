// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alioth-net/alioth/test/testtool/report"
)

// answerLimit is how long a line may take to be answered. Over UDP it is lost then.
const answerLimit = 5 * time.Second

// keptBreaks is how many ends of sockets are reported one by one.
const keptBreaks = 100

// Converse sends numbered lines to an echo server, one after the other's answer, over one socket
// until ctx ends, and returns who has answered. A target is tcp://ADDR:PORT, udp://ADDR:PORT for a
// connected socket, or datagrams://ADDR:PORT for an unconnected one; each line is "<text>-<target>
// <number>". When the socket ends, another is opened. begun, unless nil, is called once, when the
// first answer is back.
func Converse(
	ctx context.Context,
	target, text string,
	interval time.Duration,
	begun func(),
) (report.Conversation, error) {
	network, address, _ := strings.Cut(target, "://")
	c := &conversation{text: text + "-" + target, interval: interval, begun: sync.OnceFunc(func() {
		if begun != nil {
			begun()
		}
	})}
	c.result.Target = target
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return c.result, fmt.Errorf("target %q: %w", target, err)
	}
	open, known := map[string]func(context.Context, netip.AddrPort) (talker, error){
		"tcp": dialTalker("tcp"), "udp": dialTalker("udp"), "datagrams": openDatagrams,
	}[network]
	if !known {
		return c.result, fmt.Errorf("target %q: want tcp://, udp:// or datagrams://", target)
	}
	for ctx.Err() == nil {
		if err := c.once(ctx, to, open); err != nil {
			c.result.Broken++
			if len(c.result.Breaks) < keptBreaks {
				c.result.Breaks = append(c.result.Breaks, err.Error())
			}
			pause(ctx, interval)
		}
	}
	return c.result, nil
}

func pause(ctx context.Context, span time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(span):
	}
}

// talker is a socket that asks one peer.
type talker struct {
	net.Conn
	// exchange sends a line and returns the next answer.
	exchange func(line []byte, buffer []byte) (int, error)
	// lossy: lines and answers may be lost.
	lossy bool
}

func dialTalker(network string) func(context.Context, netip.AddrPort) (talker, error) {
	return func(ctx context.Context, to netip.AddrPort) (talker, error) {
		dialer := net.Dialer{Timeout: answerLimit}
		conn, err := dialer.DialContext(ctx, network, to.String())
		if err != nil {
			return talker{}, err
		}
		return talker{Conn: conn, lossy: network == "udp", exchange: func(line, buffer []byte) (int, error) {
			if _, err := conn.Write(line); err != nil {
				return 0, err
			}
			return conn.Read(buffer)
		}}, nil
	}
}

// openDatagrams returns a socket that is not connected. It accepts answers of its peer
// alone; an answer from another address is an error.
func openDatagrams(ctx context.Context, to netip.AddrPort) (talker, error) {
	var config net.ListenConfig
	socket, err := config.ListenPacket(ctx, "udp", ":0")
	if err != nil {
		return talker{}, err
	}
	conn := socket.(*net.UDPConn)
	return talker{Conn: conn, lossy: true, exchange: func(line, buffer []byte) (int, error) {
		if _, err := conn.WriteToUDPAddrPort(line, to); err != nil {
			return 0, err
		}
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err == nil && netip.AddrPortFrom(from.Addr().Unmap(), from.Port()) != to {
			return 0, fmt.Errorf("an answer comes from %s", from)
		}
		return n, err
	}}, nil
}

type conversation struct {
	text     string
	interval time.Duration
	begun    func()
	result   report.Conversation
}

// once talks over one socket, until ctx or the socket ends.
func (c *conversation) once(
	ctx context.Context,
	to netip.AddrPort,
	open func(context.Context, netip.AddrPort) (talker, error),
) error {
	t, err := open(ctx, to)
	if err != nil {
		return err
	}
	defer t.Close()
	buffer := make([]byte, 4096)
	for ; ctx.Err() == nil; pause(ctx, c.interval) {
		if err := t.SetDeadline(time.Now().Add(answerLimit)); err != nil {
			return err
		}
		c.result.Sent++
		n, err := t.exchange(fmt.Appendf(nil, "%s %d\n", c.text, c.result.Sent), buffer)
		if t.lossy && errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return err
		}
		if err := c.note(string(buffer[:n])); err != nil {
			return err
		}
	}
	return nil
}

// note takes the answer to the last line, "<name> <peer> <text> <number>".
func (c *conversation) note(answer string) error {
	words := strings.Fields(answer)
	if len(words) < 3 || words[len(words)-1] != strconv.Itoa(c.result.Sent) {
		return fmt.Errorf("line %d has the answer %q", c.result.Sent, answer)
	}
	c.result.Answered++
	c.begun()
	turns := &c.result.Turns
	if n := len(*turns); n == 0 || (*turns)[n-1].Name != words[0] {
		*turns = append(*turns, report.Turn{Name: words[0]})
	}
	(*turns)[len(*turns)-1].Answers++
	return nil
}
