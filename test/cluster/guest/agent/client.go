// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/alioth-net/alioth/test/cluster/process"
)

// Client asks the agent of one node. It is safe for concurrent use.
type Client struct {
	address string
	http    *http.Client
}

// NewClient returns a client for the agent of the node with an address. It connects when
// it is asked to.
func NewClient(node netip.Addr) *Client { return newClient(Address(node)) }

func newClient(address string) *Client {
	// Commands last as long as their context, and end with their connection. The agent
	// is behind no proxy.
	return &Client{address: address, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// Run runs a command on the node. The error describes how it ended, if not well.
func (c *Client) Run(ctx context.Context, command Command, stdout, stderr io.Writer) error {
	answer, err := c.post(ctx, pathRun, command)
	if err != nil {
		return err
	}
	defer answer.Close()
	decoder := json.NewDecoder(answer)
	for {
		var frame Frame
		if err := decoder.Decode(&frame); err != nil {
			return fmt.Errorf("read what %s prints: %w", command.Args[0], errors.Join(err, ctx.Err()))
		}
		if frame.Ended && frame.Failure != "" {
			return errors.New(frame.Failure)
		}
		if frame.Ended {
			return nil
		}
		_, err1 := stdout.Write(frame.Stdout)
		_, err2 := stderr.Write(frame.Stderr)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
	}
}

// Start starts a daemon on the node, unless one of the same name runs.
func (c *Client) Start(ctx context.Context, spec process.Spec) error {
	return c.ask(ctx, pathStart, spec)
}

// StartAgain starts a daemon as Start has started it before, unless it runs.
func (c *Client) StartAgain(ctx context.Context, name string) error {
	return c.ask(ctx, pathStart, process.Spec{Name: name})
}

// Stop kills a daemon that Start started, and returns when it has ended.
func (c *Client) Stop(ctx context.Context, name string) error {
	return c.ask(ctx, pathStop, process.Spec{Name: name})
}

// Dial connects to a UNIX socket of the node.
func (c *Client) Dial(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, fmt.Errorf("connect to the node's agent: %w", err)
	}
	reader, err := upgrade(conn, c.address, socket)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to %s of the node: %w", socket, err)
	}
	return joined{Conn: conn, reader: reader}, nil
}

// upgrade asks for a socket on a fresh connection, and returns a reader of it.
func upgrade(conn net.Conn, host, socket string) (*bufio.Reader, error) {
	request := fmt.Sprintf(
		"POST %s?socket=%s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: socket\r\n\r\n",
		pathDial,
		url.QueryEscape(socket),
		host,
	)
	if _, err := io.WriteString(conn, request); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return nil, complaint(answer)
	}
	return reader, nil
}

// joined is a connection to a socket; the first bytes may have come with the answer.
type joined struct {
	net.Conn
	reader *bufio.Reader
}

func (j joined) Read(p []byte) (int, error) { return j.reader.Read(p) }

func (c *Client) ask(ctx context.Context, path string, what any) error {
	answer, err := c.post(ctx, path, what)
	if err != nil {
		return err
	}
	return answer.Close()
}

// post returns the body of the answer, if it is a good one.
func (c *Client) post(ctx context.Context, path string, what any) (io.ReadCloser, error) {
	raw, err := json.Marshal(what)
	if err != nil {
		return nil, fmt.Errorf("encode the request to the node's agent: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+path, bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("make the request to the node's agent: %w", err)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the node's agent: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		return nil, complaint(answer)
	}
	return answer.Body, nil
}

// complaint returns the error text that the agent answers instead of the requested result.
func complaint(answer *http.Response) error {
	const most = 4096
	text, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return fmt.Errorf("the node's agent answers %s: %w", answer.Status, err)
	}
	return errors.New(strings.TrimSpace(string(text)))
}
