// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/containernetworking/cni/pkg/types"
)

const (
	// statusPatience limits STATUS, because a runtime waits for it when it reports the
	// node's condition.
	statusPatience = 800 * time.Millisecond
	// maxResponse limits the size of a response, in bytes.
	maxResponse = 1 << 20
)

// Client talks to the daemon. The zero value uses DefaultSocket.
type Client struct {
	// Socket is the path of the daemon's socket.
	Socket string
}

// SocketIn returns the socket that a network configuration names with the key
// "socket", or DefaultSocket.
func SocketIn(config []byte) string {
	var conf struct {
		Socket string `json:"socket"`
	}
	if err := json.Unmarshal(config, &conf); err != nil || conf.Socket == "" {
		return DefaultSocket
	}
	return conf.Socket
}

// Do carries out a command and returns the output of the plugin, which may be empty.
// All its errors are a *types.Error. Canceling ctx cancels the command.
//
// Do also decides the result of a command while no daemon answers:
//
//   - ADD, CHECK and GC fail with CodeNotReady; the runtime tries again.
//   - STATUS returns the daemon's last reply, and fails once the daemon has been
//     unreachable for RestartGrace. A daemon that does not answer at once counts
//     as unreachable, so that a busy daemon does not block the node.
//   - DEL succeeds. The daemon's journal on disk has the attachment. The runtime
//     deletes the network namespace next, and a starting daemon removes every
//     attachment whose network namespace is gone. A failure would keep pods
//     Terminating, and would block drains and the roll-out that starts the daemon
//     again. For the same reason a DEL succeeds during which the daemon ended.
func (c Client) Do(ctx context.Context, req Request) ([]byte, error) {
	if req.Command == "STATUS" {
		return nil, c.status(ctx, req)
	}
	resp, err := c.post(ctx, req)
	var away *awayError
	if errors.As(err, &away) {
		return nil, c.whileAway(req.Command, away)
	}
	if err != nil {
		return nil, err
	}
	if resp.Error != nil {
		return nil, resp.Error
	}
	return resp.Result, nil
}

// awayError reports that no daemon answered, or that it ended during the request.
type awayError struct{ cause error }

func (e *awayError) Error() string { return e.cause.Error() }

func (c Client) whileAway(command string, away *awayError) error {
	if command == "DEL" {
		return nil
	}
	return types.NewError(CodeNotReady, "network is not ready - "+c.noAnswer(away.cause), "")
}

func (c Client) noAnswer(cause error) string {
	return fmt.Sprintf("alioth-cnid on this node does not answer at %s: %v", c.socket(), cause)
}

// status returns nil or a *types.Error, within statusPatience.
func (c Client) status(ctx context.Context, req Request) error {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	resp, err := c.post(ctx, req)
	if err == nil && resp.Error == nil {
		return nil
	}
	if err == nil {
		return resp.Error
	}
	if err = LastState(c.socket(), errors.New(c.noAnswer(err))); err != nil {
		return types.NewError(CodeUnavailable, err.Error(), "")
	}
	return nil
}

func (c Client) socket() string {
	if c.Socket == "" {
		return DefaultSocket
	}
	return c.Socket
}

// post returns the daemon's response, an *awayError, or a *types.Error.
func (c Client) post(ctx context.Context, req Request) (*Response, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, types.NewError(types.ErrInternal, "encode request", err.Error())
	}
	// The host part of the URL has no meaning on a unix socket.
	httpReq, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://alioth-cnid"+PathV1, bytes.NewReader(body))
	if err != nil {
		return nil, types.NewError(types.ErrInternal, "make request", err.Error())
	}
	httpReq.Header.Set("Content-Type", "application/json")
	httpResp, err := HTTPClient(c.socket()).Do(httpReq)
	if err != nil && ctx.Err() != nil {
		return nil, types.NewError(
			CodeNotReady,
			"network is not ready - alioth-cnid did not finish in time",
			ctx.Err().Error(),
		)
	}
	if err != nil {
		return nil, &awayError{cause: err}
	}
	defer func() { _ = httpResp.Body.Close() }()
	return decode(httpResp)
}

// HTTPClient returns a client of a unix socket, for one request of a process that ends.
func HTTPClient(socket string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true}}
}

func decode(httpResp *http.Response) (*Response, error) {
	if httpResp.StatusCode != http.StatusOK {
		return nil, types.NewError(CodeNotReady, fmt.Sprintf("network is not ready - alioth-cnid does not speak %s (%s): "+
			"the plugin binary and the daemon are of different releases; the daemon's roll-out may still be under way", PathV1, httpResp.Status), "")
	}
	text, err := io.ReadAll(io.LimitReader(httpResp.Body, maxResponse))
	if err != nil {
		return nil, &awayError{cause: fmt.Errorf("read answer: %w", err)}
	}
	var resp Response
	if err := json.Unmarshal(text, &resp); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "decode the daemon's answer", err.Error())
	}
	return &resp, nil
}
